import Crypto
import CryptoExtras
import Dispatch
import RelayCore
import Synchronization

/// The cost of scrypt (RFC 7914): 128 · `rounds` · `blockSize` bytes of memory, and time in proportion, `parallelism`
/// times.
struct ScryptCost: Sendable, Equatable {
  /// The binary logarithm of the rounds.
  let roundsLog: UInt8
  let blockSize: UInt8
  let parallelism: UInt8

  /// The length of a derived key.
  static let keyBytes = 32
  /// Some 50 ms and 16 MiB.
  static let pin = ScryptCost(roundsLog: 14, blockSize: 8, parallelism: 1)
  /// Some 100 ms and 32 MiB.
  static let password = ScryptCost(roundsLog: 15, blockSize: 8, parallelism: 1)

  /// Within what a process may spend on one secret: what is stored is not to stop it.
  var isAffordable: Bool {
    (10...17).contains(roundsLog) && (1...8).contains(blockSize) && (1...4).contains(parallelism)
  }
}

/// Runs scrypt, one derivation after the other on a queue of its own: neither an event loop nor Swift's threads wait
/// for them, and no flood takes more than one core.
final class ScryptQueue<Owner: Hashable & Sendable>: Sendable {
  private struct Waiting {
    var count = 0
    /// The number of waiting derivations of each owner.
    var owners: [Owner: Int] = [:]
  }

  private let queue: DispatchQueue
  private let waitingMax: Int
  private let ownerMax: Int
  private let waiting = Mutex(Waiting())

  /// - Parameters:
  ///   - waitingMax: derivations that run or wait.
  ///   - ownerMax: of them, for one owner.
  init(label: String, waitingMax: Int, ownerMax: Int) {
    queue = DispatchQueue(label: label)
    self.waitingMax = waitingMax
    self.ownerMax = ownerMax
  }

  /// - Parameter owners: whose place it takes, at most `ownerMax` for each.
  /// - Throws: `.unavailable` when too many wait already.
  func derive(
    _ secret: Secret, salt: [UInt8], cost: ScryptCost, for owners: [Owner]
  ) async throws(Problem) -> [UInt8] {
    guard enter(owners) else {
      throw Problem(.unavailable, retryAfter: .seconds(1), reason: "too many secrets at once")
    }
    let result: Result<[UInt8], any Error> = await withCheckedContinuation { continuation in
      queue.async { [self] in
        let result = Result { try Self.scrypt(secret, salt: salt, cost) }
        leave(owners)
        continuation.resume(returning: result)
      }
    }
    switch result {
    case .success(let key): return key
    case .failure(let error): throw Problem(.internalError, reason: "scrypt: \(type(of: error))")
    }
  }

  private func enter(_ owners: [Owner]) -> Bool {
    waiting.withLock { waiting in
      guard waiting.count < waitingMax, owners.allSatisfy({ waiting.owners[$0, default: 0] < ownerMax }) else {
        return false
      }
      waiting.count += 1
      for owner in owners { waiting.owners[owner, default: 0] += 1 }
      return true
    }
  }

  private func leave(_ owners: [Owner]) {
    waiting.withLock { waiting in
      waiting.count -= 1
      for owner in owners {
        let rest = waiting.owners[owner, default: 0] - 1
        waiting.owners[owner] = rest > 0 ? rest : nil
      }
    }
  }

  private static func scrypt(_ secret: Secret, salt: [UInt8], _ cost: ScryptCost) throws -> [UInt8] {
    try KDF.Scrypt.deriveKey(
      from: Array(secret.value.utf8), salt: salt, outputByteCount: ScryptCost.keyBytes,
      rounds: 1 << Int(cost.roundsLog),
      blockSize: Int(cost.blockSize), parallelism: Int(cost.parallelism)
    ).withUnsafeBytes { Array($0) }
  }
}
