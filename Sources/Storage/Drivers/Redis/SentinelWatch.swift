// Follows the primary of a group by asking its sentinels, all of them, once a second. A fail-over is known within that
// second, also to a process whose connection to the former primary still stands.

package import RelayCore
import RelayWork
import Synchronization

/// Facts that the sentinels of a group tell, for `relay doctor`.
package struct SentinelDiagnosis: Sendable, Equatable {
  /// nil while none is known.
  package let primary: RedisEndpoint.Address?
  /// The sentinels that are configured.
  package let count: Int
  /// One line for each sentinel that does not answer: its address, and why.
  package let faults: [String]
  /// The sentinels that answer and name another primary, or none.
  package let dissenters: [RedisEndpoint.Address]
  /// Whether enough sentinels reach each other to replace the primary; nil when none lets us ask.
  package let canReplace: Bool?
}

/// Connections to the sentinels of a group, and what follows from their answers.
///
/// Lives on a thread of its own: the look-up of a dead sentinel's name holds up no command.
final class SentinelWatch: Sendable {
  private let current: @Sendable () -> RedisEndpoint
  private let opinions: Mutex<SentinelOpinions>
  private let connections: [RedisConnection]
  private let reactor: Reactor

  /// Does nothing before `start`.
  /// - Parameter current: the endpoint as it is now, with the same sentinels: passwords change.
  /// - Throws: `.unavailable` when there is no thread or descriptor left.
  init(_ sentinels: RedisSentinels, of current: @escaping @Sendable () -> RedisEndpoint) throws(StoreError) {
    let reactor = try Reactor(name: "relay-sentinel")
    self.reactor = reactor
    self.current = current
    opinions = Mutex(SentinelOpinions(sentinels))
    connections = sentinels.addresses.map { address in
      let route = { @Sendable () -> RedisRoute in
        let endpoint = current()
        guard case .sentinels(let now) = endpoint.place else { return .nowhere(.cannotConnect) }
        return .to(endpoint.sentinelTarget(at: address, of: now))
      }
      return RedisConnection(by: route, role: .sentinel(group: sentinels.group), limits: Self.limits, on: reactor)
    }
  }

  /// - Parameter changed: called when `route` may say another thing, on the watch's thread.
  func start(_ changed: @escaping @Sendable () -> Void) {
    for (index, connection) in connections.enumerated() {
      connection.start { [weak self] event in
        guard let self else { return }
        let isNews =
          switch event {
          case .answer(let answer): opinions.withLock { $0.answered(answer, index) }
          case .away(let fault): opinions.withLock { $0.away(fault, index) }
          case .ready, .message, .slots: false
          }
        if isNews { changed() }
      }
    }
  }

  /// The way to the primary.
  var route: RedisRoute {
    let (primary, fault) = opinions.withLock { ($0.primary, $0.fault) }
    if let primary { return .to(current().target(at: primary, isNamedPrimary: true)) }
    return fault.map { .nowhere($0) } ?? .soon
  }

  /// The sentinels' state, and whether they could replace the primary. Waits until each was tried.
  func diagnose() async -> SentinelDiagnosis {
    await Pause.poll(every: .milliseconds(20), until: .now + Self.firstAttemptMax) {
      opinions.withLock(\.isComplete)
    }
    var canReplace: Bool?
    for connection in connections where canReplace != true {
      switch await connection.call(RedisCommand("SENTINEL", "CKQUORUM", group)) {
      case .status: canReplace = true
      case .error(code: "NOQUORUM"): canReplace = false
      default: break
      }
    }
    return opinions.withLock {
      SentinelDiagnosis(
        primary: $0.primary, count: connections.count, faults: $0.faults.map(\.reason), dissenters: $0.dissenters,
        canReplace: canReplace)
    }
  }

  func close() async {
    for connection in connections { connection.close() }
    await reactor.stop()
  }

  private var group: String {
    if case .sentinels(let sentinels) = current().place { sentinels.group } else { "" }
  }

  /// The deadline of a connection, and a little.
  private static let firstAttemptMax = Duration.seconds(3)
  /// A sentinel's answers are this old at most, and a fail-over is followed that late.
  private static let limits = RedisConnection.Limits(probeEvery: .seconds(1), pauseLongest: .seconds(1))
}
