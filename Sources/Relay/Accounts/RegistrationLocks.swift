import RelayCore

/// Registration locks as they are stored: scrypt over a pin, since people choose pins and choose them short.
///
/// A derivation takes some 50 ms and 16 MiB. They run one after the other on a queue of their own, so that neither an
/// event loop nor Swift's threads wait for them and no flood of pins takes more than one core. Registrations have one,
/// and whoever sets a lock has another: nobody fills the first one without a right code for each derivation.
package final class RegistrationLocks: Sendable {
  /// Half a second's work: whoever asks once waits no longer for those who ask all the time.
  private let queue = ScryptQueue<Never>(label: "relay.registration-locks", waitingMax: 8, ownerMax: 0)

  package init() {}

  /// Makes the stored form of `pin`.
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

  private func derive(_ pin: Secret, salt: [UInt8]) async throws(Problem) -> [UInt8] {
    try await queue.derive(pin, salt: salt, cost: .pin, for: [])
  }
}
