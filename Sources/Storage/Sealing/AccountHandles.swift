import Crypto
import CryptoExtras
import RelayCore

/// How numbers and handles become each other: a handle is one block of AES-256 under a key of the relay's own, of the
/// number's eight bytes and eight zeros, by which a handle of this relay is known.
///
/// So a handle needs no column and no index, tells nothing without the key, and outlives its account in the audit log.
struct AccountHandles: Sendable {
  private let key: SymmetricKey

  init(key: SecretBytes) { self.key = SymmetricKey(data: key.bytes) }

  func handle(of number: AccountNumber) throws(StoreError) -> AccountHandle {
    var block =
      (0..<8).map { UInt8(truncatingIfNeeded: number.digits >> (56 - 8 * $0)) } + [UInt8](repeating: 0, count: 8)
    do {
      try AES.permute(&block, key: key)
    } catch {
      throw .corrupted(reason: "the key of account handles is no key")
    }
    guard let handle = AccountHandle(bytes: block) else { throw .corrupted(reason: "a handle is no block") }
    return handle
  }

  /// - Returns: nil for what is no handle under this key.
  func number(of handle: AccountHandle) throws(StoreError) -> AccountNumber? {
    var block = handle.bytes
    do {
      try AES.inversePermute(&block, key: key)
    } catch {
      throw .corrupted(reason: "the key of account handles is no key")
    }
    guard block[8...].allSatisfy({ $0 == 0 }) else { return nil }
    let digits = block[..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    return Int64(exactly: digits).flatMap { AccountNumber(digits: $0) }
  }
}
