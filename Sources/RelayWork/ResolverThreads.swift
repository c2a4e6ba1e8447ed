import Synchronization

/// Looks hosts up on threads: one look-up of a host at a time, for all who ask meanwhile.
///
/// Anybody may name a host whose name servers never answer, a push subscription's for one. Such hosts take the threads
/// in turn with others, and an answer may come after its callers have given up. It is kept for the next one a while: a
/// caller that comes again need not wait behind them twice.
final class ResolverThreads: Sendable {
  private typealias Answer = Waiter<[String]>
  fileprivate struct LookUp {
    var answers = Waiters<[String]>()
    var hasBegun = false
  }

  fileprivate struct State {
    var pending: [String: LookUp] = [:]
    var late = AgedGenerations<String, [String], ContinuousClock.Instant>(
      capacity: ResolverThreads.lateMax, life: ResolverThreads.lateLife)
  }

  fileprivate enum Place {
    /// Nobody asked for the host before.
    case first
    case joined
    case answered([String])
    case full
  }

  fileprivate static let threadsMax = 4
  /// Hosts asked for and not answered; more are not asked.
  fileprivate static let pendingMax = 64
  fileprivate static let lateMax = 256
  /// Longer than a full queue of hosts that never answer.
  fileprivate static let lateLife = Duration.seconds(900)

  private let threads = BlockingThreads(threadsMax)
  private let state = Mutex(State())
  private let lookUp: @Sendable (String) -> [String]

  init(_ lookUp: @escaping @Sendable (String) -> [String]) { self.lookUp = lookUp }

  func addresses(of host: String, within limit: Duration) async -> [String]? {
    let answer = Answer()
    switch state.withLock({ $0.place(of: host, answer) }) {
    case .answered(let addresses): return addresses
    case .full: return nil
    case .first: begin(host)
    case .joined: break
    }
    if let addresses = await answer.value(until: .now + limit) { return addresses }
    return state.withLock { state in
      state.pending[host]?.answers.remove(answer)
      return state.pending[host]?.hasBegun == false ? nil : []
    }
  }

  private func begin(_ host: String) {
    threads.begin { [self] in
      state.withLock { $0.pending[host]?.hasBegun = true }
      let addresses = lookUp(host)
      let isTaken = state.withLock { $0.ended(host) }.end(with: addresses)
      guard !isTaken, !addresses.isEmpty else { return }
      state.withLock { $0.late.insert(addresses, for: host, at: .now) }
    }
  }
}

extension ResolverThreads.State {
  fileprivate mutating func place(of host: String, _ answer: Waiter<[String]>) -> ResolverThreads.Place {
    if let addresses = late.value(of: host, at: .now) {
      late.removeValue(forKey: host)
      return .answered(addresses)
    }
    let isFirst = pending[host] == nil
    guard !isFirst || pending.count < ResolverThreads.pendingMax else { return .full }
    pending[host, default: ResolverThreads.LookUp()].answers.add(answer)
    return isFirst ? .first : .joined
  }

  /// - Returns: the callers that still wait.
  fileprivate mutating func ended(_ host: String) -> [Waiter<[String]>] {
    var lookUp = pending.removeValue(forKey: host)
    return lookUp?.answers.takeAll() ?? []
  }
}
