/// Draws schedules: every kind in its turn, alone and in pairs, at random instants, with quiet times in between.
package struct ScheduleGenerator: Sendable {
  package var sites: [String]
  package var processes: Int
  package var kinds: [FaultKind]
  /// How long a fault lasts.
  package var lasting: ClosedRange<Int> = 300...6000
  /// Between one or two faults and the next.
  package var pause: ClosedRange<Int> = 500...8000
  /// A time without faults that is long enough to tell who is deaf comes after so many rounds.
  package var roundsBetweenQuiet = 12
  package var quiet = 45_000

  package init(sites: [String], processes: Int, kinds: [FaultKind] = FaultKind.allCases) {
    self.sites = sites
    self.processes = processes
    self.kinds = kinds
  }

  /// - Returns: the same for the same generator, which began with `seed`.
  package func schedule(
    seed: UInt64, seconds: Int, _ random: inout some RandomNumberGenerator
  ) -> Schedule {
    var steps: [Schedule.Step] = []
    // Until when something is held.
    var held: [String: Int] = [:]
    var deck: [FaultKind] = []
    var happened: Set<String> = []
    var time = Int.random(in: 500...3000, using: &random)
    var round = 0
    while true {
      round += 1
      for _ in 0..<Int.random(in: 1...2, using: &random) {
        if deck.isEmpty { deck = kinds.shuffled(using: &random) }
        guard let kind = deck.popLast() else { return Schedule(seed: seed, seconds: seconds, []) }
        let fault = draw(kind, &random)
        if kind.happensOnce, !happened.insert("\(kind) \(fault.site)").inserted { continue }
        let wanted = time + Int.random(in: 0...2000, using: &random)
        let holds = fault.holds(of: processes)
        let at = holds.reduce(wanted) { max($0, held[$1] ?? 0) }
        let step = Schedule.Step(at: at, lasting: Int.random(in: lasting, using: &random), fault)
        for one in holds { held[one] = step.end + 1 }
        if step.end <= seconds * 1000 { steps.append(step) }
      }
      time += Int.random(in: pause, using: &random)
      if round % roundsBetweenQuiet == 0 { time = max(time, held.values.max() ?? 0) + quiet }
      if time > seconds * 1000 { return Schedule(seed: seed, seconds: seconds, steps) }
    }
  }

  /// A minute, a day and 40 days, both ways.
  private static let jumps = [60, 86_400, 40 * 86_400].flatMap { [$0, -$0] }

  private func draw(_ kind: FaultKind, _ random: inout some RandomNumberGenerator) -> Fault {
    let site = sites.randomElement(using: &random) ?? ""
    let process = Int.random(in: 0..<processes, using: &random)
    switch kind {
    case .processKilled, .processStopped, .olderBuild: return Fault(kind, at: site, process: process)
    case .clockJumped:
      return Fault(kind, at: site, process: process, seconds: Self.jumps.randomElement(using: &random))
    case .linkCut, .linkCutOneWay, .linkDelayed, .linkLossy:
      let link = Link.allCases.randomElement(using: &random) ?? .postgres
      return Fault(kind, at: site, process: link.isOfProcess ? process : nil, link: link)
    default: return Fault(kind, at: site)
    }
  }
}
