import Crypto
package import RelayCore
import RelayWork
import Synchronization

/// Passwords of the users of device notifications (docs/decisions/2026-11-21-password-hash.md).
///
/// A password that a person chose is kept under scrypt. One that was drawn at random is kept as a device's is
/// (`Passwords`). The stored bytes tell which it is: 32 bytes for a random one. For a chosen one four bytes come
/// before the 32: a version, and the cost.
///
/// Passwords come with every request, so a process remembers which ones it has found right.
package final class ChosenPasswords: Sendable {
  private static let version: UInt8 = 1
  private static let prefixBytes = 4
  /// A second's work.
  private static let waitingMax = 8
  /// The most for one user, and for one client address: others find a place too.
  private static let ownerMax = 2

  /// The owner of derivations that wait.
  private enum Owner: Hashable, Sendable {
    case user(NotificationUser)
    case address(LimitKey)
  }

  private struct State {
    /// Right ones.
    var verified: TwoGenerations<[UInt8], PasswordHash>
    /// Passwords that are being tried. A request that brings the same one meanwhile waits for the same derivation.
    var trials: [Trial: Task<Result<Bool, Problem>, Never>] = [:]
  }

  private struct Trial: Hashable {
    let mark: [UInt8]
    let salt: [UInt8]
    let hash: [UInt8]
  }

  private let queue = ScryptQueue<Owner>(
    label: "relay.chosen-passwords", waitingMax: waitingMax, ownerMax: ownerMax)
  private let state: Mutex<State>
  /// This process's key: without it the remembered marks are of no use.
  private let key = SymmetricKey(size: .bits256)

  /// - Parameter capacity: right passwords that are remembered, some 200 bytes each.
  package init(capacity: Int = 10_000) { state = Mutex(State(verified: TwoGenerations(capacity: capacity))) }

  /// Makes the stored form of `password`, which `user` chose.
  /// - Throws: `.unavailable` when too many wait already.
  package func hash(_ password: Secret, of user: NotificationUser) async throws(Problem) -> PasswordHash {
    var generator = SystemRandomNumberGenerator()
    let salt = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
    let cost = ScryptCost.password
    let derived = try await queue.derive(password, salt: salt, cost: cost, for: [.user(user)])
    return PasswordHash(salt: salt, hash: [Self.version, cost.roundsLog, cost.blockSize, cost.parallelism] + derived)
  }

  /// Whether `password` is the one that `stored` was made of. One that this process has found right costs as little as
  /// a random one, until `stored` is another.
  /// - Parameter address: whoever asks; nil where nobody is charged.
  /// - Throws: `.unavailable` when too many wait already: nothing is known then.
  package func verify(
    _ password: Secret, of user: NotificationUser, from address: LimitKey?, against stored: PasswordHash
  ) async throws(Problem) -> Bool {
    guard stored.hash.count == Self.prefixBytes + ScryptCost.keyBytes else {
      return Passwords.verify(password, against: stored)
    }
    let mark = mark(password, user)
    let trial: Task<Result<Bool, Problem>, Never>? = state.withLock { state in
      var known: PasswordHash?
      state.verified.updateExisting(mark) { known = $0 }
      if let known, Self.isSame(known, stored) { return nil }
      let name = Trial(mark: mark, salt: stored.salt, hash: stored.hash)
      if let trial = state.trials[name] { return trial }
      let trial = Task { [self] in await run(name, password, user, address, stored) }
      state.trials[name] = trial
      return trial
    }
    guard let trial else { return true }
    return try await trial.value.get()
  }

  private func run(
    _ trial: Trial, _ password: Secret, _ user: NotificationUser, _ address: LimitKey?, _ stored: PasswordHash
  ) async -> Result<Bool, Problem> {
    let result: Result<Bool, Problem>
    do throws(Problem) {
      result = .success(try await derive(password, user, address, stored))
    } catch {
      result = .failure(error)
    }
    state.withLock { state in
      if case .success(true) = result { state.verified.update(trial.mark, orInsert: stored) { $0 = stored } }
      state.trials[trial] = nil
    }
    return result
  }

  private func derive(
    _ password: Secret, _ user: NotificationUser, _ address: LimitKey?, _ stored: PasswordHash
  ) async throws(Problem) -> Bool {
    let cost = ScryptCost(roundsLog: stored.hash[1], blockSize: stored.hash[2], parallelism: stored.hash[3])
    guard stored.hash[0] == Self.version, cost.isAffordable else {
      throw Problem(.internalError, reason: "a stored password is of no known form")
    }
    let owners = [Owner.user(user)] + (address.map { [Owner.address($0)] } ?? [])
    let derived = try await queue.derive(password, salt: stored.salt, cost: cost, for: owners)
    return constantTimeEquals(derived, Array(stored.hash.dropFirst(Self.prefixBytes)))
  }

  private static func isSame(_ a: PasswordHash, _ b: PasswordHash) -> Bool {
    constantTimeEquals(a.salt, b.salt) && constantTimeEquals(a.hash, b.hash)
  }

  /// The mark by which a right password is remembered. A name holds no byte 0.
  private func mark(_ password: Secret, _ user: NotificationUser) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: Array("\(user)".utf8) + [0] + Array(password.value.utf8), using: key))
  }
}
