import Foundation
import Synchronization

/// Looks hosts up on threads: one look-up of a host at a time, for all who ask meanwhile.
///
/// Anybody may name a host that never answers, a push subscription's for one. So a host that is known to answer goes
/// first, the more often the better, and has threads and room that hosts without a prompt last answer do not take.
final class ResolverThreads: Sendable {
  fileprivate typealias Answer = Waiter<[String]>
  fileprivate struct LookUp {
    /// The callers that wait, and those that have given up. Bounded by the requests that are open.
    var answers: [Answer]
    /// Its place among those asked for.
    let number: Int
    /// How many prompt answers it gave one after the other, before this look-up.
    let record: Int
    var hasBegun = false

    var isProven: Bool { record > 0 }
  }

  fileprivate struct State {
    var pending: [String: LookUp] = [:]
    var records = AgedGenerations<String, Int, ContinuousClock.Instant>(
      capacity: ResolverThreads.recordsMax, life: ResolverThreads.recordLife)
    var asked = 0
  }

  fileprivate static let threadsMax = 6
  /// How many of them hosts without a record may take.
  fileprivate static let unprovenThreadsMax = 4
  /// Hosts asked for and not answered; more are not asked.
  fileprivate static let pendingMax = 128
  fileprivate static let unprovenPendingMax = 64
  fileprivate static let recordsMax = 4096
  fileprivate static let recordLife = Duration.seconds(3600)
  /// A name server that is there answers sooner, also through another one.
  fileprivate static let promptMax = Duration.seconds(1)

  private let queue = OperationQueue()
  private let state = Mutex(State())
  private let lookUp: @Sendable (String) -> [String]

  init(_ lookUp: @escaping @Sendable (String) -> [String]) {
    self.lookUp = lookUp
    queue.maxConcurrentOperationCount = Self.threadsMax
  }

  func addresses(of host: String, within limit: Duration) async -> [String]? {
    let answer = Answer()
    guard state.withLock({ $0.isTaken(host, answer) }) else { return nil }
    begin()
    if let addresses = await answer.value(until: .now + limit) { return addresses }
    return state.withLock { $0.pending[host]?.hasBegun } == false ? nil : []
  }

  /// Begins look-ups as long as there are threads for them.
  private func begin() {
    while let host = state.withLock({ $0.nextHost() }) {
      // A waiting caller may give up before the thread is done.
      queue.addOperation { [self] in
        let began = ContinuousClock.now
        let addresses = lookUp(host)
        let isPrompt = !addresses.isEmpty && .now - began <= Self.promptMax
        state.withLock { $0.ended(host, isPrompt: isPrompt) }.end(with: addresses)
        begin()
      }
    }
  }
}

extension ResolverThreads.State {
  /// - Returns: false when there is no room for another look-up.
  fileprivate mutating func isTaken(_ host: String, _ answer: ResolverThreads.Answer) -> Bool {
    guard pending[host] == nil else {
      pending[host]?.answers.append(answer)
      return true
    }
    let record = records.value(of: host, at: .now) ?? 0
    guard pending.count < ResolverThreads.pendingMax else { return false }
    guard record > 0 || pending.values.count(where: { !$0.isProven }) < ResolverThreads.unprovenPendingMax else {
      return false
    }
    asked += 1
    pending[host] = ResolverThreads.LookUp(answers: [answer], number: asked, record: record)
    return true
  }

  /// - Returns: the host to look up next, which has begun; nil when none waits, or no thread is free for it.
  fileprivate mutating func nextHost() -> String? {
    let begun = pending.values.filter(\.hasBegun)
    guard begun.count < ResolverThreads.threadsMax else { return nil }
    let takesUnproven = begun.count { !$0.isProven } < ResolverThreads.unprovenThreadsMax
    let next = pending.filter { !$0.value.hasBegun && (takesUnproven || $0.value.isProven) }
      .min { ($1.value.record, $0.value.number) < ($0.value.record, $1.value.number) }
    guard let host = next?.key else { return nil }
    pending[host]?.hasBegun = true
    return host
  }

  /// - Returns: those that asked for it.
  fileprivate mutating func ended(_ host: String, isPrompt: Bool) -> [ResolverThreads.Answer] {
    guard let lookUp = pending.removeValue(forKey: host) else { return [] }
    records.removeValue(forKey: host)
    if isPrompt { records.insert(lookUp.record + 1, for: host, at: .now) }
    return lookUp.answers
  }
}
