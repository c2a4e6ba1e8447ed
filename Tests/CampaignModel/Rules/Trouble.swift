/// Which faults are in effect, as the driver wrote them down.
package struct Trouble: Sendable {
  package struct Active: Sendable {
    package let kind: FaultKind
    package let site: String
    package let link: Link?
    package let since: Moment
  }

  /// A standby took over from an operator's primary.
  package struct TakeOver: Sendable {
    fileprivate let fault: Int
    package let site: String
    package let began: Moment
    /// nil while the fault is in effect.
    package fileprivate(set) var ended: Moment?
  }

  package private(set) var active: [Int: Active] = [:]
  /// The end of the last fault; the begin of the campaign before the first.
  package private(set) var lastEnd = Moment.begin
  /// How many faults so far have ended processes, whose memory is lost.
  package private(set) var losses = 0
  /// When coordination lost what it counts: the last times.
  package private(set) var forgotten: [(site: String, at: Moment)] = []
  /// The last ones.
  package private(set) var takeOvers: [TakeOver] = []
  private static let forgottenMax = 256
  private static let takeOversMax = 256

  package init() {}

  /// Since when no fault is in effect; nil while one is.
  package var quietSince: Moment? { active.isEmpty ? lastEnd : nil }

  /// Whether no fault has been in effect for longer than `time`.
  package func isQuiet(for time: Duration, at now: Moment) -> Bool {
    quietSince.map { now - $0 > time } ?? false
  }

  package mutating func take(_ sight: Sight, at now: Moment) {
    switch sight {
    case .faultBegan(let number, let kind, let site, let link):
      active[number] = Active(kind: kind, site: site, link: link, since: now)
      if kind.endsProcesses { losses += 1 }
      if kind.losesCoordination { forget(site, now) }
      if kind == .postgresPromoted { takenOver(number, site, now) }
    case .faultEnded(let number):
      guard let fault = active.removeValue(forKey: number) else { return }
      lastEnd = now
      if let index = takeOvers.lastIndex(where: { $0.fault == number }) { takeOvers[index].ended = now }
      if fault.kind.losesCoordination { forget(fault.site, now) }
    default: break
    }
  }

  private mutating func takenOver(_ fault: Int, _ site: String, _ now: Moment) {
    takeOvers.append(TakeOver(fault: fault, site: site, began: now))
    if takeOvers.count > Self.takeOversMax { takeOvers.removeFirst() }
  }

  private mutating func forget(_ site: String, _ now: Moment) {
    forgotten.append((site, now))
    if forgotten.count > Self.forgottenMax { forgotten.removeFirst() }
  }
}
