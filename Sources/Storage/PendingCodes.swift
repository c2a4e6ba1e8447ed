import Crypto
import RelayCore
import Synchronization

/// How pending codes lie in a store: as HMAC-SHA256 under a key of the relay's own, over purpose, number and code.
///
/// Six digits are found from a plain hash at once. The key lies sealed where there is `storage.encryption-key`: then a
/// copy of the store says nothing of a code. Two such texts may be compared in any way: without the key nobody can
/// choose what is compared, so the time that it takes tells nothing.
struct PendingCodes: Sendable {
  private let key: SymmetricKey

  init(key: SecretBytes) { self.key = SymmetricKey(data: key.bytes) }

  func stored(_ code: Secret, _ purpose: CodePurpose, of number: AccountNumber) -> StoredCode {
    let text = "\(purpose.name)\n\(number.e164)\n\(code.value)"
    return StoredCode(bytes: Array(HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key)))
  }

  /// The keyed hash by which the store knows a banned number: without the key nobody finds the number.
  func banMark(of number: AccountNumber) -> StoredCode {
    StoredCode(bytes: Array(HMAC<SHA256>.authenticationCode(for: Array("ban\n\(number.e164)".utf8), using: key)))
  }

  static func draw() -> SecretBytes {
    SecretBytes((0..<ServerKeyName.pendingCodes.byteCount).map { _ in UInt8.random(in: .min ... .max) })
  }
}

/// A code as the column `code` has it.
struct StoredCode: Sendable {
  let bytes: [UInt8]
}

/// A `RegistrationProof` with its code as the column has it.
enum StoredProof: Sendable {
  case code(StoredCode, triesMax: Int)
  case numberToken(second: Int64)
  case trusted

  /// Wrong tries that void the pending code.
  var triesMax: Int64 {
    switch self {
    case .code(_, let triesMax): Int64(triesMax)
    // No code was tried.
    case .numberToken, .trusted: .max
    }
  }
}

/// The key of pending codes, asked for once: it stays the same for as long as the store lives.
final class KnownCodes: Sendable {
  private let known = Mutex<PendingCodes?>(nil)

  /// - Parameter store: where the key lies, and is drawn on first use.
  func value(in store: some ServerSecretStore) async throws(StoreError) -> PendingCodes {
    if let codes = known.withLock({ $0 }) { return codes }
    let codes: PendingCodes
    do throws(StoreError) {
      codes = PendingCodes(key: try await store.serverKey(.pendingCodes) { PendingCodes.draw() })
    } catch {
      guard case .corrupted = error else { throw error }
      codes = PendingCodes(key: try await Self.redrawnKey(in: store))
    }
    known.withLock { $0 = codes }
    return codes
  }

  /// Nobody is lost with the operator's encryption key: a key of codes that does not open is replaced. Codes that were
  /// pending are void with it, and are asked for again.
  private static func redrawnKey(in store: some ServerSecretStore) async throws(StoreError) -> SecretBytes {
    let name = ServerKeyName.pendingCodes.rawValue
    if let stored = try await store.serverSecret(name) {
      // False when another process was faster. What lies as it is, is sealed when it is read.
      _ = try await store.replaceServerSecret(name, stored, with: PendingCodes.draw().bytes)
    }
    return try await store.serverKey(.pendingCodes) { PendingCodes.draw() }
  }

  func stored(_ proof: RegistrationProof, of number: AccountNumber, in store: some ServerSecretStore)
    async throws(StoreError) -> StoredProof
  {
    switch proof {
    case .code(let code, let triesMax):
      .code(try await value(in: store).stored(code, .registration, of: number), triesMax: triesMax)
    case .numberToken(let second): .numberToken(second: second)
    case .trusted: .trusted
    }
  }
}

extension CodePurpose {
  fileprivate var name: String {
    switch self {
    case .registration: "registration"
    case .linking: "linking"
    }
  }
}
