import Crypto
import Foundation
package import RelayCore

/// Encrypts what is stored of secrets that the relay itself must be able to read again: signaling keys.
///
/// AES-256-GCM with a random nonce, bound to the account. A sealed text is the byte 255, four bytes that name the key
/// (the first of its SHA-256), the nonce, the ciphertext and the tag. Without a key texts are stored as they are; since
/// UTF-8 has no byte 255, whatever a client wrote, both can lie in one column, and a key can be given, or changed, at
/// any time.
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
    do {
      let box = try AES.GCM.seal(Array(secret.value.utf8), using: current.key, authenticating: Self.binding(account))
      guard let combined = box.combined else { throw StoreError.corrupted(reason: "a secret could not be sealed") }
      return [Self.mark] + current.name + Array(combined)
    } catch {
      throw .corrupted(reason: "a secret could not be sealed")
    }
  }

  /// - Throws: `.corrupted` when it was sealed under a key that is not known, or for another account.
  package func open(_ stored: [UInt8], of account: AccountNumber) throws(StoreError) -> Secret {
    guard stored.first == Self.mark else { return Secret(String(decoding: stored, as: UTF8.self)) }
    guard let key = known.first(where: { $0.name[...] == stored.dropFirst().prefix(4) }) else {
      throw .corrupted(reason: "a secret was sealed under another storage.encryption-key")
    }
    do {
      let box = try AES.GCM.SealedBox(combined: Data(stored.dropFirst(5)))
      let text = try AES.GCM.open(box, using: key.key, authenticating: Self.binding(account))
      return Secret(String(decoding: text, as: UTF8.self))
    } catch {
      throw .corrupted(reason: "a sealed secret does not open")
    }
  }

  /// - Returns: what was sealed under the former key, sealed under the current one; nil for anything else.
  /// - Throws: `.corrupted` when it does not open.
  package func resealed(_ stored: [UInt8], of account: AccountNumber) throws(StoreError) -> [UInt8]? {
    guard let former, let current, former.name != current.name, stored.first == Self.mark,
      former.name[...] == stored.dropFirst().prefix(4)
    else { return nil }
    return try seal(open(stored, of: account), of: account)
  }

  /// As `resealed`; nil also for what does not open, which its account's next registration replaces.
  func resealedIfIntact(_ stored: [UInt8], of account: AccountNumber) -> [UInt8]? {
    do throws(StoreError) { return try resealed(stored, of: account) } catch { return nil }
  }

  private static let mark: UInt8 = 0xFF
  private static func binding(_ account: AccountNumber) -> [UInt8] { Array(account.e164.utf8) }
}
