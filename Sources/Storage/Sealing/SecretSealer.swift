import Crypto
import Foundation
package import RelayCore

/// Encrypts what is stored of secrets that the relay itself must be able to read again: signaling keys, and the key of
/// contact tokens (`TokenSealer`).
///
/// AES-256-GCM with a random nonce, bound to the account, or to the key's name. A sealed text is the byte 255, four
/// bytes that name the key (the first of its SHA-256), the nonce, the ciphertext and the tag. Without a key texts are
/// stored as they are; since UTF-8 has no byte 255, whatever a client wrote, both can lie in one column, and a key can
/// be given, or changed, at any time.
package struct SecretSealer: Sendable {
  private struct Key: Sendable {
    let name: [UInt8]
    let key: SymmetricKey
    init(_ secret: SecretBytes) {
      name = Array(SHA256.hash(data: secret.bytes).prefix(4))
      key = SymmetricKey(data: secret.bytes)
    }
  }

  private let current: Key?
  private let former: Key?
  private let known: [Key]

  /// - Parameters:
  ///   - current: 32 bytes; nil stores texts as they are.
  ///   - former: what may still be sealed under.
  package init(current: SecretBytes?, former: SecretBytes? = nil) {
    self.current = current.map(Key.init)
    self.former = former.map(Key.init)
    known = [self.current, self.former].compactMap(\.self)
  }

  /// Stores texts as they are.
  package static let none = SecretSealer(current: nil)

  package var isSealing: Bool { current != nil }

  package func seal(_ secret: Secret, of account: AccountNumber) throws(StoreError) -> [UInt8] {
    guard let current else { return Array(secret.value.utf8) }
    return try Self.seal(Array(secret.value.utf8), under: current, Self.binding(account))
  }

  /// - Throws: `.corrupted` when it was sealed under a key that is not known, or for another account.
  package func open(_ stored: [UInt8], of account: AccountNumber) throws(StoreError) -> Secret {
    guard stored.first == Self.mark else { return Secret(String(decoding: stored, as: UTF8.self)) }
    return Secret(String(decoding: try open(stored, Self.binding(account)), as: UTF8.self))
  }

  /// - Returns: what was sealed under the former key, sealed under the current one; nil for anything else.
  /// - Throws: `.corrupted` when it does not open.
  package func resealed(_ stored: [UInt8], of account: AccountNumber) throws(StoreError) -> [UInt8]? {
    try resealed(stored, Self.binding(account))
  }

  /// As `resealed`; nil also for what does not open, which its account's next registration replaces.
  func resealedIfIntact(_ stored: [UInt8], of account: AccountNumber) -> [UInt8]? {
    do throws(StoreError) { return try resealed(stored, of: account) } catch { return nil }
  }

  private static let mark: UInt8 = 0xFF
  private static func binding(_ account: AccountNumber) -> [UInt8] { Array(account.e164.utf8) }
}

// MARK: - Keys of ours

extension SecretSealer {
  /// A key that the relay drew for itself.
  /// - Returns: nil without an encryption key: such a key never lies in clear.
  func seal(_ key: SecretBytes, named name: String) throws(StoreError) -> [UInt8]? {
    guard let current else { return nil }
    return try Self.seal(key.bytes, under: current, Self.binding(name))
  }

  /// - Throws: `.corrupted` when it was sealed under a key that is not known, or under another name.
  func open(_ stored: [UInt8], named name: String) throws(StoreError) -> SecretBytes {
    SecretBytes(Array(try open(stored, Self.binding(name))))
  }

  /// As `resealed(_:of:)`.
  func resealed(_ stored: [UInt8], named name: String) throws(StoreError) -> [UInt8]? {
    try resealed(stored, Self.binding(name))
  }

  /// No account is named so.
  private static func binding(_ name: String) -> [UInt8] { Array("server secret \(name)".utf8) }
}

// MARK: - Whatever it is bound to

extension SecretSealer {
  private static func seal(_ text: [UInt8], under key: Key, _ binding: [UInt8]) throws(StoreError) -> [UInt8] {
    do {
      let box = try AES.GCM.seal(text, using: key.key, authenticating: binding)
      guard let combined = box.combined else { throw StoreError.corrupted(reason: "a secret could not be sealed") }
      return [mark] + key.name + Array(combined)
    } catch {
      throw .corrupted(reason: "a secret could not be sealed")
    }
  }

  private func open(_ stored: [UInt8], _ binding: [UInt8]) throws(StoreError) -> Data {
    guard stored.first == Self.mark, let key = known.first(where: { $0.name[...] == stored.dropFirst().prefix(4) })
    else {
      throw .corrupted(reason: "a secret was sealed under another storage.encryption-key")
    }
    do {
      let box = try AES.GCM.SealedBox(combined: Data(stored.dropFirst(5)))
      return try AES.GCM.open(box, using: key.key, authenticating: binding)
    } catch {
      throw .corrupted(reason: "a sealed secret does not open")
    }
  }

  private func resealed(_ stored: [UInt8], _ binding: [UInt8]) throws(StoreError) -> [UInt8]? {
    guard let former, let current, former.name != current.name, stored.first == Self.mark,
      former.name[...] == stored.dropFirst().prefix(4)
    else { return nil }
    return try Self.seal(Array(open(stored, binding)), under: current, binding)
  }
}
