/// How long it took from the return of somebody to the next thing that needs them.
///
/// A return that another fault of that operator overlaps, or follows before the next success, is not measured.
package struct Returns: Sendable, Codable {
  /// The party that came back. The awaited success is of the operator that the fault was at.
  package enum Party: String, Sendable, CaseIterable, Codable, CodingKeyRepresentable {
    /// A submission is accepted.
    case postgres
    /// A message that was submitted after the return reaches a device of the operator.
    case redis
    /// A message that was submitted after the return by a device of the operator reaches one of the other.
    case peer
  }

  private struct Awaited {
    let party: Party
    let site: String
    let at: Moment
    /// Later ones were submitted after the return.
    let lastMessage: Int
  }

  package private(set) var millis: [Party: [Int]] = [:]
  private var awaited: [Awaited] = []
  private var homes: [DeviceIndex: String] = [:]
  private var lastMessage = 0

  private enum CodingKeys: String, CodingKey { case millis }

  package init() {}

  /// The share of returns that took no longer, in milliseconds; nil where none was measured.
  package func percentile(_ party: Party, _ share: Double) -> Int? {
    guard let all = millis[party]?.sorted(), !all.isEmpty else { return nil }
    return all[min(all.count - 1, Int(Double(all.count) * share))]
  }

  package mutating func began(at site: String) { awaited.removeAll { $0.site == site || $0.party == .peer } }

  /// - Parameter isAlone: no other fault is in effect.
  package mutating func ended(_ fault: Trouble.Active, isAlone: Bool, _ now: Moment) {
    guard isAlone, let party = Self.party(fault) else { return }
    awaited.append(Awaited(party: party, site: fault.site, at: now, lastMessage: lastMessage))
  }

  package mutating func began(_ invocation: Invocation) {
    switch invocation.call {
    case .register: homes[invocation.device] = invocation.place.site
    case .submit(let message, _, _): lastMessage = max(lastMessage, message.rawValue)
    default: break
    }
  }

  package mutating func accepted(_ invocation: Invocation, _ now: Moment) {
    settle(now) { $0.party == .postgres && $0.site == invocation.place.site }
  }

  package mutating func delivered(
    _ message: MessageNumber, from sender: DeviceIndex?, to device: DeviceIndex, _ now: Moment
  ) {
    let (home, origin) = (homes[device], sender.flatMap { homes[$0] })
    settle(now) { one in
      guard message.rawValue > one.lastMessage else { return false }
      return switch one.party {
      case .postgres: false
      case .redis: home == one.site
      case .peer: origin == one.site && home != one.site
      }
    }
  }

  private mutating func settle(_ now: Moment, where isOver: (Awaited) -> Bool) {
    guard !awaited.isEmpty else { return }
    for one in awaited where isOver(one) {
      millis[one.party, default: []].append(Int((now - one.at) / .milliseconds(1)))
    }
    awaited.removeAll(where: isOver)
  }

  private static func party(_ fault: Trouble.Active) -> Party? {
    switch (fault.kind, fault.link) {
    case (.postgresRestarted, _), (.postgresCrashed, _), (.postgresPromoted, _), (.postgresDiskFull, _),
      (.standbyStopped, _), (.linkCut, .postgres), (.linkCutOneWay, .postgres), (.linkCut, .standby),
      (.linkCutOneWay, .standby):
      .postgres
    case (.redisRestarted, _), (.redisDemoted, _), (.redisDiskFull, _), (.linkCut, .redis), (.linkCutOneWay, .redis):
      .redis
    case (.linkCut, .peer), (.linkCutOneWay, .peer), (.certificateEnded, _): .peer
    default: nil
    }
  }
}

/// The longest time in which an operator answered no submission, though one was under way, while one kind of fault was
/// the only one; and, to hold it against, behind such a fault while there was none.
package struct Stalls: Sendable, Codable {
  package let kind: FaultKind
  package private(set) var longestMillis: Int?
  package private(set) var longestBehindMillis: Int?
  private var site: String?
  private var isBehind = false
  private var open: [OperationNumber: Invocation] = [:]
  private var lastAnswer = Moment.begin

  private enum CodingKeys: String, CodingKey { case kind, longestMillis, longestBehindMillis }

  package init(during kind: FaultKind) { self.kind = kind }

  package mutating func changed(_ active: [Int: Trouble.Active], _ now: Moment) {
    if site != nil { measure(now) }
    let only = active.count == 1 ? active.values.first : nil
    isBehind = active.isEmpty && site != nil
    if !isBehind { site = only?.kind == kind ? only?.site : nil }
    lastAnswer = now
  }

  package mutating func began(_ invocation: Invocation) {
    guard case .submit = invocation.call else { return }
    open[invocation.operation] = invocation
  }

  package mutating func ended(_ invocation: Invocation, _ now: Moment) {
    guard open[invocation.operation] != nil else { return }
    if invocation.place.site == site {
      measure(now)
      lastAnswer = now
    }
    open[invocation.operation] = nil
  }

  /// From the last answer, or the begin of the oldest that waits since then.
  private mutating func measure(_ now: Moment) {
    guard let oldest = open.values.filter({ $0.place.site == site }).map(\.at).min() else { return }
    let millis = Int((now - max(oldest, lastAnswer)) / .milliseconds(1))
    if isBehind {
      longestBehindMillis = max(longestBehindMillis ?? 0, millis)
    } else {
      longestMillis = max(longestMillis ?? 0, millis)
    }
  }
}
