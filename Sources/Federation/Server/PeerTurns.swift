import RelayCore
import Synchronization

/// Bounds what is under way in this process of one costly kind, for each peer and for all together: what a peer asks
/// for beyond is refused, and takes nothing from the others.
final class PeerTurns: Sendable {
  private let perPeerMax: Int
  private let allMax: Int
  private let retryAfter: Duration
  private let taken = Mutex<[RelayName: Int]>([:])

  /// - Parameter retryAfter: what who is refused is told.
  init(perPeer perPeerMax: Int, all allMax: Int = .max, retryAfter: Duration) {
    self.perPeerMax = perPeerMax
    self.allMax = allMax
    self.retryAfter = retryAfter
  }

  /// Runs `work` in a turn of `peer`. - Throws: `.unavailable` when there is none; what `work` throws.
  func take<Value>(of peer: RelayName, _ work: () async throws(Problem) -> Value) async throws(Problem) -> Value {
    guard let value = try await takeIfFree(of: peer, work) else {
      throw Problem(.unavailable, retryAfter: retryAfter)
    }
    return value
  }

  /// As `take`. - Returns: nil, without having run `work`, when there is no turn.
  func takeIfFree<Value>(
    of peer: RelayName, _ work: () async throws(Problem) -> Value
  ) async throws(Problem) -> Value? {
    guard begin(peer) else { return nil }
    defer { end(peer) }
    return try await work()
  }

  private func begin(_ peer: RelayName) -> Bool {
    taken.withLock { taken in
      let own = taken[peer] ?? 0
      guard own < perPeerMax, taken.values.reduce(0, +) < allMax else { return false }
      taken[peer] = own + 1
      return true
    }
  }

  private func end(_ peer: RelayName) {
    taken.withLock { taken in
      let rest = (taken[peer] ?? 0) - 1
      taken[peer] = rest > 0 ? rest : nil
    }
  }
}
