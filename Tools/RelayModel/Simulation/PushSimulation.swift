import HeapModule
import Push
import RelayCore
import Waking

/// One push service does not answer for a while, and devices go on having to be woken (docs/waking.md).
///
/// The breakers, the turns of the lane, its bounds and the pauses after failures are the product's own values. The store and the providers are times.
struct PushSimulation {
  private struct Job: Comparable {
    let device: Int
    let asked: Duration
    var due: Duration
    var attempt = 1
    /// As it was when the lane took the job.
    var destination: PushDestination
    let order: Int

    static func < (a: Self, b: Self) -> Bool { (a.due, a.order) < (b.due, b.order) }
    static func == (a: Self, b: Self) -> Bool { a.order == b.order }
  }

  private enum Event {
    case ask
    case poll
    case answered(Job, isFailed: Bool)
    case sample
  }

  private let settings: Settings
  private let waking: WakingSettings
  private let limits: PushLaneLimits
  private let time = SimulatedTime()
  private var random: SeededNumbers
  private var queue = EventQueue<Event>()
  private var turns: PushTurns
  private var breakers = PushBreakers(max: 1024)
  private var proven = ProvenDestinations(max: 1024)
  private var waiting = Heap<Job>()
  /// Jobs of this process that wait for a turn, by ticket.
  private var turnsOf: [PushTurns.Ticket: Job] = [:]
  private var lastTicket: PushTurns.Ticket = 0
  private var claimed = 0
  private var lastProbe: Duration?
  private var pending: Set<Int> = []
  private var restUntil: [Int: Duration] = [:]
  private var jobs = 0
  private var isNudged = false
  private var outcome: Outcome

  private static let bytes = 1024
  /// As a worker claims them.
  private static let claimedTogether = 50

  /// - Throws: `ModelFailure`.
  init(_ settings: Settings) throws {
    try settings.check()
    self.settings = settings
    waking = WakingSettings(through: ServedProviders(own: [settings.provider]), lifetime: .seconds(86_400))
    limits = .forWaking(by: settings.provider)
    turns = PushTurns(.init(limits))
    random = SeededNumbers(seed: settings.seed)
    outcome = Outcome(waits: Array(repeating: Waits(), count: settings.services))
  }

  /// Runs it to its end.
  static func run(_ settings: Settings) throws -> Outcome {
    var simulation = try PushSimulation(settings)
    return simulation.run()
  }

  private mutating func run() -> Outcome {
    queue.add(.ask, at: .zero)
    queue.add(.poll, at: waking.poll)
    queue.add(.sample, at: .zero)
    let end = back + .seconds(settings.afterSeconds)
    while let event = queue.next(until: end) { handle(event) }
    outcome.waiting = pending.count
    return outcome
  }

  private mutating func handle(_ event: Event) {
    switch event {
    case .ask: ask()
    case .poll:
      queue.add(.poll, after: waking.poll)
      claim()
    case .answered(let job, let isFailed): answered(job, isFailed)
    case .sample:
      outcome.samples.append(Sample(seconds: queue.now.inSeconds, value: Double(pending.count)))
      queue.add(.sample, after: .seconds(1))
    }
  }

  private var gone: Duration { .seconds(settings.awayAfter) }
  private var back: Duration { gone + .seconds(settings.awaySeconds) }
  private func service(of device: Int) -> Int { device % settings.services }
  private func destination(of device: Int) -> PushDestination {
    proven.destination("\(service(of: device))", now: time.instant(queue.now))
  }
  /// The first service is the one in trouble.
  private func isAway(_ job: Job) -> Bool { service(of: job.device) == 0 && queue.now >= gone && queue.now < back }

  // MARK: Jobs

  private mutating func ask() {
    queue.add(.ask, after: random.pause(perSecond: settings.wakesPerSecond))
    let device = Int.random(in: 0..<settings.devices, using: &random)
    outcome.asked += 1
    guard pending.insert(device).inserted else {
      outcome.merged += 1
      return
    }
    jobs += 1
    // A device that was woken is left alone for a while.
    let due = max(queue.now, restUntil[device] ?? .zero)
    waiting.insert(Job(device: device, asked: due, due: due, destination: destination(of: device), order: jobs))
    claim()
  }

  private mutating func claim() {
    while true {
      let isOpen = settings.provider == .webPush || breakers.openCount == 0
      let limit = isOpen ? min(waking.claimedMax - claimed, Self.claimedTogether) : probes()
      var taken: [Job] = []
      while taken.count < limit, let job = waiting.min, job.due <= queue.now {
        waiting.removeMin()
        taken.append(job)
      }
      guard !taken.isEmpty else { return }
      claimed += taken.count
      for job in taken { carryOut(job) }
      if taken.count < limit { return }
    }
  }

  /// One now and then, while the provider is in trouble.
  private mutating func probes() -> Int {
    guard claimed == 0 else { return 0 }
    if let lastProbe, queue.now - lastProbe < waking.poll / 2 { return 0 }
    lastProbe = queue.now
    return 1
  }

  // MARK: The lane

  private mutating func carryOut(_ job: Job) {
    var job = job
    job.destination = destination(of: job.device)
    guard turns.admit(bytes: Self.bytes, for: job.destination) else { return settle(job, .temporary(.queueFull)) }
    if case .halted(let left) = breakers.admission(job.destination.name, now: time.instant(queue.now)) {
      return dismiss(job, .temporary(.halted, retryAfter: left))
    }
    lastTicket += 1
    guard turns.enter(lastTicket, for: job.destination) else {
      turnsOf[lastTicket] = job
      return
    }
    attempt(job)
  }

  private mutating func attempt(_ job: Job) {
    // The breaker may have opened while it waited.
    if case .halted(let left) = breakers.admit(job.destination.name, now: time.instant(queue.now)) {
      leave(job)
      return dismiss(job, .temporary(.halted, retryAfter: left))
    }
    outcome.attempts += 1
    if isAway(job) { outcome.attemptsWhileAway += 1 }
    // What is on its way when the service goes is answered.
    let isFailed = isAway(job)
    let took = isFailed && settings.isSilent ? limits.attemptTimeout : .milliseconds(settings.answerMillis)
    queue.add(.answered(job, isFailed: isFailed), after: took)
  }

  private mutating func answered(_ job: Job, _ isFailed: Bool) {
    let result: PushOutcome =
      switch (isFailed, settings.isSilent) {
      case (false, _): .delivered(id: nil)
      case (true, true): .temporary(.timedOut)
      case (true, false): .temporary(PushReason(.server, provider: nil, status: 503))
      }
    let verdict = PushBreaker.Verdict(result, isRushed: false)
    proven.ended(verdict, job.destination.name, now: time.instant(queue.now))
    let change = breakers.ended(verdict, job.destination.name, now: time.instant(queue.now))
    if change == .opened { outcome.opened.append((queue.now - gone).inSeconds) }
    if change == .closed { outcome.closed.append((queue.now - back).inSeconds) }
    leave(job)
    dismiss(job, result)
  }

  private mutating func leave(_ job: Job) {
    for next in turns.leave(job.destination).compactMap({ turnsOf.removeValue(forKey: $0) }) { attempt(next) }
  }

  private mutating func dismiss(_ job: Job, _ result: PushOutcome) {
    turns.dismiss(bytes: Self.bytes, for: job.destination)
    settle(job, result)
  }

  private mutating func settle(_ job: Job, _ result: PushOutcome) {
    claimed -= 1
    var job = job
    switch result {
    case .temporary(.halted, let left):
      outcome.halted += 1
      job.due =
        queue.now
        + waking.backOff.waitWhileHalted(of: settings.provider, asked: left, age: queue.now - job.asked)
      waiting.insert(job)
    case .temporary(_, let asked):
      job.due = queue.now + waking.backOff.wait(after: job.attempt, asked: asked, spread: random.share())
      job.attempt += 1
      waiting.insert(job)
    default:
      pending.remove(job.device)
      restUntil[job.device] = queue.now + waking.pause
      outcome.delivered += 1
      outcome.waits[service(of: job.device)].add(queue.now - job.asked)
      if queue.now >= back, outcome.emptyAfter == nil, isNothingOld {
        outcome.emptyAfter = (queue.now - back).inSeconds
      }
    }
    // What makes room is a reason to look for more, at the next event and not within this one.
    if !isNudged { nudge() }
  }

  /// Whether no job waits that was asked for while the service was away.
  private var isNothingOld: Bool {
    waiting.unordered.allSatisfy { $0.asked >= back } && turnsOf.values.allSatisfy { $0.asked >= back }
  }

  private mutating func nudge() {
    isNudged = true
    defer { isNudged = false }
    claim()
  }
}
