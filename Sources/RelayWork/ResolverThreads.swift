import Synchronization

/// Looks hosts up on threads: one look-up of a host at a time, for all who ask meanwhile.
///
/// Anybody may name a host whose name servers never answer, a push subscription's for one. Such hosts take the threads
/// in turn with others. So an answer that came too late for its callers is kept for the next one: whoever asks again
/// gets it in the end.
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
  fileprivate static let lateLife = Duration.seconds(60)

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
      state.withLock { $0.ended(host, addresses) }.end(with: addresses)
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
  fileprivate mutating func ended(_ host: String, _ addresses: [String]) -> [Waiter<[String]>] {
    var lookUp = pending.removeValue(forKey: host)
    let waiting = lookUp?.answers.takeAll() ?? []
    if waiting.isEmpty, !addresses.isEmpty { late.insert(addresses, for: host, at: .now) }
    return waiting
  }
}
