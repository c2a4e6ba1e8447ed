import Crypto
import CryptoExtras
import Dispatch
import RelayCore
import Synchronization

/// Registration locks as they are stored: scrypt over a pin, since people choose pins and choose them short.
///
/// A derivation takes some 50 ms and 16 MiB. They run one after the other on a queue of their own, so that neither an
/// event loop nor Swift's threads wait for them and no flood of pins takes more than one core.
package final class RegistrationLocks: Sendable {
  private let queue = DispatchQueue(label: "relay.registration-locks")
  private let waiting = Mutex(0)

  package init() {}

  /// What is stored of `pin`.
  /// - Throws: `.unavailable` when too many wait already.
  func hash(_ pin: Secret) async throws(Problem) -> PasswordHash {
    var generator = SystemRandomNumberGenerator()
    let salt = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
    return PasswordHash(salt: salt, hash: try await derive(pin, salt: salt))
  }

  /// Compares in constant time.
  /// - Throws: `.unavailable` when too many wait already.
  func verify(_ pin: Secret, against lock: PasswordHash) async throws(Problem) -> Bool {
    constantTimeEquals(try await derive(pin, salt: lock.salt), lock.hash)
  }

  /// Half a second's work: whoever asks once waits no longer for those who ask all the time.
  private static let waitingMax = 8
  private static let keyBytes = 32

  private func derive(_ pin: Secret, salt: [UInt8]) async throws(Problem) -> [UInt8] {
    let isAdmitted = waiting.withLock { count in
      guard count < Self.waitingMax else { return false }
      count += 1
      return true
    }
    guard isAdmitted else { throw Problem(.unavailable, retryAfter: .seconds(1), reason: "too many pins at once") }
    let result: Result<[UInt8], any Error> = await withCheckedContinuation { continuation in
      queue.async { [self] in
        let result = Result { try Self.scrypt(pin, salt: salt) }
        waiting.withLock { $0 -= 1 }
        continuation.resume(returning: result)
      }
    }
    switch result {
    case .success(let key): return key
    case .failure(let error): throw Problem(.internalError, reason: "scrypt: \(type(of: error))")
    }
  }

  private static func scrypt(_ pin: Secret, salt: [UInt8]) throws -> [UInt8] {
    try KDF.Scrypt.deriveKey(
      from: Array(pin.value.utf8), salt: salt, outputByteCount: keyBytes, rounds: 1 << 14, blockSize: 8, parallelism: 1
    ).withUnsafeBytes { Array($0) }
  }
}
