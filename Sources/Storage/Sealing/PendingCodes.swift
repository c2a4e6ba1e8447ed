import Crypto
import RelayCore

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

extension KnownKey<PendingCodes> {
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
