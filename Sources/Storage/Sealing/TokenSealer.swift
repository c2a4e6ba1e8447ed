import Crypto
import CryptoExtras
import RelayCore
import Synchronization

/// How contact tokens lie in a store (docs/directory.md, "At rest"): as they are, or each sealed under the store's
/// key.
///
/// A sealed token is 17 bytes: its first byte as it is, by which ranges are read; then one block of AES-256 over its
/// 10 bytes and 6 zeros. Equal tokens are sealed alike, so that tables are searched, joined and kept unique by what
/// lies in them; opened, the zeros and the first byte tell damage and another key with a chance of 2^-56.
struct TokenSealer: Sendable {
  static let keyBytes = 32
  static let sealedBytes = 1 + blockBytes
  private static let blockBytes = 16

  /// nil: tokens lie as they are.
  private let key: SymmetricKey?

  /// Leaves tokens as they are.
  static let plain = TokenSealer()

  private init() { key = nil }

  /// - Parameter key: `keyBytes`.
  /// - Throws: `.corrupted` for another length.
  init(key: SecretBytes) throws(StoreError) {
    guard key.bytes.count == Self.keyBytes else { throw .corrupted(reason: "the key of contact tokens is none") }
    self.key = SymmetricKey(data: key.bytes)
  }

  var isSealing: Bool { key != nil }

  /// How many bytes a stored token has.
  var storedBytes: Int { isSealing ? Self.sealedBytes : ContactToken.byteCount }

  // MARK: One token

  func seal(_ token: ContactToken) throws(StoreError) -> StoredToken {
    guard let key else { return StoredToken(token.bytes) }
    let stored = [UInt8](unsafeUninitializedCapacity: Self.sealedBytes) { buffer, count in
      buffer[0] = UInt8(truncatingIfNeeded: token.high >> 56)
      let raw = UnsafeMutableRawBufferPointer(buffer)
      raw.storeBytes(of: token.high.bigEndian, toByteOffset: 1, as: UInt64.self)
      raw.storeBytes(of: (UInt64(token.low) << 48).bigEndian, toByteOffset: 9, as: UInt64.self)
      var block = UnsafeMutableBufferPointer(rebasing: buffer[1...])
      // Fails for another length of block or key alone: nothing is left then, which no table takes.
      do { try AES.permute(&block, key: key) } catch { return }
      count = Self.sealedBytes
    }
    guard stored.count == Self.sealedBytes else { throw .corrupted(reason: "a token could not be sealed") }
    return StoredToken(stored)
  }

  /// - Throws: `.corrupted` for what this store does not hold: a token that is not sealed in a sealed store too.
  func open(_ stored: StoredToken) throws(StoreError) -> ContactToken {
    guard let token = stored.bytes.withUnsafeBytes({ opened($0) }) else { throw Self.damage }
    return token
  }

  private func opened(_ stored: UnsafeRawBufferPointer) -> ContactToken? {
    guard stored.count == storedBytes else { return nil }
    guard let key else { return Self.token(stored) }
    // Two words, so that the block lies on the stack.
    var block = (
      stored.loadUnaligned(fromByteOffset: 1, as: UInt64.self), stored.loadUnaligned(fromByteOffset: 9, as: UInt64.self)
    )
    return withUnsafeMutableBytes(of: &block) { raw in
      var bytes = raw.assumingMemoryBound(to: UInt8.self)
      // Fails for another length of block or key alone.
      do { try AES.inversePermute(&bytes, key: key) } catch { return nil }
      guard bytes[0] == stored[0], bytes[ContactToken.byteCount...].allSatisfy({ $0 == 0 }) else { return nil }
      return Self.token(UnsafeRawBufferPointer(raw))
    }
  }

  private static let damage = StoreError.corrupted(
    reason: "a contact token in the store is none, or is sealed otherwise")

  /// - Parameter bytes: the first 10 count.
  private static func token(_ bytes: UnsafeRawBufferPointer) -> ContactToken {
    ContactToken(
      high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
      low: UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt16.self)))
  }

  /// The key for copies of the directory beside the store, from which this one's cannot be computed.
  /// - Returns: 32 bytes; nil where tokens lie as they are.
  var fileKey: SecretBytes? {
    key.map { key in
      let derived = HKDF<SHA256>.deriveKey(
        inputKeyMaterial: key, info: Array("relay directory file".utf8), outputByteCount: Self.keyBytes)
      return SecretBytes(derived.withUnsafeBytes { Array($0) })
    }
  }
}

// MARK: - Many tokens

extension TokenSealer {
  func seal(_ tokens: some Sequence<ContactToken>) throws(StoreError) -> [StoredToken] {
    var stored: [StoredToken] = []
    stored.reserveCapacity(tokens.underestimatedCount)
    for token in tokens { stored.append(try seal(token)) }
    return stored
  }

  /// As `open(packed:)`.
  func open(_ stored: [StoredToken]) throws(StoreError) -> [ContactToken] {
    var packed: [UInt8] = []
    packed.reserveCapacity(stored.count * storedBytes)
    for token in stored {
      guard token.bytes.count == storedBytes else { throw Self.damage }
      packed += token.bytes
    }
    return try open(packed: packed)
  }

  /// Opens many for little more than the key costs to be set up, which it does for every single one.
  ///
  /// CBC decrypts each block by itself and adds the one before it (NIST SP 800-38A, 6.2): added once more, the block
  /// alone is left.
  /// - Parameter packed: stored tokens one behind the other, `storedBytes` each.
  /// - Throws: as for a single one.
  func open(packed: [UInt8]) throws(StoreError) -> [ContactToken] {
    guard packed.count % storedBytes == 0 else { throw Self.damage }
    let count = packed.count / storedBytes
    guard count > 0 else { return [] }
    guard let key else {
      return packed.withUnsafeBytes { packed in
        (0..<count).map { Self.token(UnsafeRawBufferPointer(rebasing: packed[($0 * ContactToken.byteCount)...])) }
      }
    }
    let blocks = Self.blocks(packed, count)
    let decrypted: [UInt8]
    do {
      let zeros = try AES._CBC.IV(ivBytes: [UInt8](repeating: 0, count: Self.blockBytes))
      decrypted = Array(try AES._CBC.decrypt(blocks, using: key, iv: zeros, noPadding: true))
    } catch {
      throw Self.damage
    }
    guard decrypted.count == blocks.count, let tokens = Self.tokens(packed, blocks, decrypted, count) else {
      throw Self.damage
    }
    return tokens
  }

  /// Without the tokens' first bytes.
  private static func blocks(_ packed: [UInt8], _ count: Int) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count * blockBytes) { blocks, filled in
      packed.withUnsafeBytes { packed in
        for index in 0..<count {
          UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(blocks)[(index * blockBytes)...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: packed[(index * sealedBytes + 1)...].prefix(blockBytes)))
        }
      }
      filled = count * blockBytes
    }
  }

  /// - Returns: nil when one is damaged.
  private static func tokens(
    _ packed: [UInt8], _ blocks: [UInt8], _ decrypted: [UInt8], _ count: Int
  ) -> [ContactToken]? {
    blocks.withUnsafeBytes { blocks in
      decrypted.withUnsafeBytes { decrypted in
        var former: (UInt64, UInt64) = (0, 0)
        var tokens: [ContactToken] = []
        tokens.reserveCapacity(count)
        for index in 0..<count {
          let place = index * blockBytes
          let high = UInt64(bigEndian: decrypted.loadUnaligned(fromByteOffset: place, as: UInt64.self) ^ former.0)
          let low = UInt64(bigEndian: decrypted.loadUnaligned(fromByteOffset: place + 8, as: UInt64.self) ^ former.1)
          former = (
            blocks.loadUnaligned(fromByteOffset: place, as: UInt64.self),
            blocks.loadUnaligned(fromByteOffset: place + 8, as: UInt64.self)
          )
          guard low & 0xFFFF_FFFF_FFFF == 0, high >> 56 == UInt64(packed[index * sealedBytes]) else { return nil }
          tokens.append(ContactToken(high: high, low: UInt16(truncatingIfNeeded: low >> 48)))
        }
        return tokens
      }
    }
  }
}

/// A contact token as a store's tables hold it: only `TokenSealer` makes one of a token and a token of it, so that no
/// statement takes a token, and no row gives one, past the sealer.
struct StoredToken: Sensitive, Sendable, Hashable {
  static let kind: StaticString = "stored token"
  /// `ContactToken.byteCount`, or `TokenSealer.sealedBytes` in a sealed store; anything else is damage, found when it
  /// is opened.
  let bytes: [UInt8]
  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// A value that every token comes after.
  static let beforeAll = StoredToken([])
}

/// The form of tokens in a store, asked once: it changes only while no relay works on it. If a process missed that,
/// the tables themselves refuse it: from then on they take tokens of one kind alone.
final class KnownTokens: Sendable {
  private let known = Mutex<TokenSealer?>(nil)

  var value: TokenSealer? { known.withLock { $0 } }

  /// - Returns: `tokens`.
  func remember(_ tokens: TokenSealer) -> TokenSealer {
    known.withLock { $0 = tokens }
    return tokens
  }

  /// They may have been sealed meanwhile.
  func forget() { known.withLock { $0 = nil } }
}
