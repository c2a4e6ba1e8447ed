import Federation
import RelayCore

/// One peer is away for a while, and messages for it go on coming (docs/federation.md, "A peer that is away" and "The
/// outbox").
///
/// Breakers, probes, the walk through the outbox, pauses after refusals and the peer's limit for what waited are the
/// product's own values. Requests, the store and the signal between processes are times.
struct OutboxSimulation {
  private struct Message {
    let conversation: Int
    let submitted: Duration
    /// Delivered, refused or given up.
    var isOver = false
  }

  private enum Event {
    case submit
    case requestDone(process: Int, request: Int)
    case patienceOver(process: Int, request: Int)
    case tableRead(process: Int, PeerCondition)
    case probe(process: Int)
    case probeDone(process: Int, isAnswered: Bool)
    case tick
    case waveDone([HeldMessage])
    case sample
  }

  private struct Process {
    var breaker = PeerBreaker()
    /// Messages on their way, and those that gather behind them.
    var underWay: [Int] = []
    var gathered: [Int] = []
    var request = 0
    var isExhausted = false
    var isProbing = false
    /// For a wait that is shortened by news: only the probe that was planned last counts.
    var probeBegan = Duration.zero
  }

  private let settings: Settings
  private let limits = PeerLimits()
  private let policy: OutboxPolicy
  private let time = SimulatedTime()
  private let relay: RelayName
  private let destinations: [(source: DeviceAddress, destination: AccountNumber)]
  private let bucket = LimiterName.messagesWaited.defaultBucket
  private var random: SeededNumbers
  private var queue = EventQueue<Event>()
  private var processes: [Process]
  private var messages: [Message] = []
  private var outbox = SimulatedOutbox()
  private var shared = PeerCondition.reachable
  private var buckets: [Int: LeakyBucket] = [:]
  private var lastDelivered: [Int: Int] = [:]
  private var pass: OutboxPass?
  private var (isBusy, isReturned) = (false, false)
  private var pausedUntil = Duration.zero
  private var lastReading: Duration?
  private var outcome = Outcome()

  private var back: Duration { .seconds(settings.awayAfter + settings.awaySeconds) }
  private var end: Duration { back + .seconds(settings.afterSeconds) }
  private var isAway: Bool { queue.now >= .seconds(settings.awayAfter) && queue.now < back }
  private var fault: PeerFault { settings.isSilent ? .silent : .network }
  private var roundTrip: Duration { .milliseconds(settings.roundTripMillis) }
  private var now: Timestamp { time.timestamp(queue.now) }
  /// A commit, and the signal to another process.
  private static let signal = Duration.milliseconds(20)

  /// - Throws: `ModelFailure`.
  init(_ settings: Settings) throws {
    try settings.check()
    self.settings = settings
    random = SeededNumbers(seed: settings.seed)
    policy = OutboxPolicy(age: .seconds(settings.ageSeconds))
    processes = Array(repeating: Process(), count: settings.processes)
    guard let relay = RelayName("peer") else { throw ModelFailure("the name of the peer is none") }
    self.relay = relay
    destinations = try (0..<settings.conversations).map { index in
      guard let source = AccountNumber(digits: 10_000_000_000 + Int64(index)),
        let destination = AccountNumber(digits: 20_000_000_000 + Int64(index))
      else { throw ModelFailure("there are too many conversations") }
      return (DeviceAddress(source, .master), destination)
    }
  }

  /// Runs it to its end.
  static func run(_ settings: Settings) throws -> Outcome {
    var simulation = try OutboxSimulation(settings)
    return simulation.run()
  }

  private mutating func run() -> Outcome {
    queue.add(.submit, at: .zero)
    queue.add(.tick, at: Outbox.tick)
    queue.add(.sample, at: .zero)
    while let event = queue.next(until: end) { handle(event) }
    // A peer that was silent may have taken a message that is held: it is delivered, and waits no more.
    let onTheWay = processes.flatMap { $0.underWay + $0.gathered }.filter { !outbox.holds(message: $0) }
    outcome.waiting = (outbox.messages + onTheWay).count { !messages[$0].isOver }
    return outcome
  }

  private mutating func handle(_ event: Event) {
    switch event {
    case .submit: submit()
    case .requestDone(let process, let request): requestDone(process, request)
    case .patienceOver(let process, let request): patienceOver(process, request)
    case .tableRead(let process, let condition):
      apply(processes[process].breaker.sharedConditionRead(condition, now: now), to: process)
    case .probe(let process): probe(process)
    case .probeDone(let process, let isAnswered): probeDone(process, isAnswered)
    case .tick: tick()
    case .waveDone(let wave): waveDone(wave)
    case .sample:
      outcome.samples.append(Sample(seconds: queue.now.inSeconds, value: Double(outbox.count)))
      queue.add(.sample, after: .seconds(1))
    }
  }

  // MARK: Messages that come

  private mutating func submit() {
    let id = messages.count
    let conversation = Int.random(in: 0..<settings.conversations, using: &random)
    messages.append(Message(conversation: conversation, submitted: queue.now))
    outcome.submitted += 1
    // A conversation stays with a process, as its sender's connection does.
    let process = conversation % settings.processes
    // The word of another process's messages is at hand at once here: the real one may take two seconds.
    if processes[process].breaker.fault != nil || processes[process].isExhausted
      || outbox.holds(conversation: conversation)
    {
      hold(id)
    } else if processes[process].underWay.isEmpty {
      send([id], by: process)
    } else {
      processes[process].gathered.append(id)
    }
    queue.add(.submit, after: random.pause(perSecond: settings.messagesPerSecond))
  }

  private mutating func hold(_ id: Int) {
    guard !outbox.holds(message: id), !messages[id].isOver else { return }
    guard outbox.count < settings.messagesMax else {
      outcome.refused += 1
      messages[id].isOver = true
      return
    }
    let conversation = messages[id].conversation
    let body = SubmittedMessage(type: .ciphertext, device: .master, registrationID: 0, body: nil, content: nil)
    let submission = Submission(
      destination: destinations[conversation].destination, messages: [body], timestamp: now)
    outbox.hold(
      PeerSubmission(relay: relay, source: destinations[conversation].source, submission: submission), id: id,
      conversation: conversation, now: now)
    outcome.held += 1
  }

  private mutating func remove(_ held: HeldMessage) {
    outbox.remove(held.sequence)
    if outbox.count == 0, queue.now >= back, outcome.emptyAfter == nil {
      outcome.emptyAfter = (queue.now - back).inSeconds
    }
  }

  // MARK: Requests

  private func duration(of count: Int) -> Duration { roundTrip + .seconds(Double(count) / settings.peerPerSecond) }

  private mutating func send(_ ids: [Int], by process: Int) {
    processes[process].underWay = ids
    processes[process].request += 1
    let request = processes[process].request
    let patience = queue.now + limits.patience
    if isAway, settings.isSilent {
      // Where the peer is back before, it answers late.
      queue.add(
        .requestDone(process: process, request: request), at: min(queue.now + limits.requestTimeout, back + roundTrip))
      queue.add(.patienceOver(process: process, request: request), at: patience)
    } else {
      queue.add(.requestDone(process: process, request: request), after: isAway ? roundTrip : duration(of: ids.count))
    }
  }

  private mutating func patienceOver(_ process: Int, _ request: Int) {
    guard processes[process].request == request, !processes[process].underWay.isEmpty else { return }
    processes[process].isExhausted = true
    for id in processes[process].underWay + processes[process].gathered { hold(id) }
    processes[process].gathered = []
  }

  private mutating func requestDone(_ process: Int, _ request: Int) {
    guard processes[process].request == request else { return }
    let ids = processes[process].underWay
    processes[process].underWay = []
    processes[process].isExhausted = false
    if isAway {
      outcome.failedRequests += 1
      for id in ids { hold(id) }
      apply(processes[process].breaker.failed(fault, now: now), to: process)
    } else {
      for id in ids { delivered(id) }
      apply(processes[process].breaker.answered(), to: process)
    }
    let gathered = processes[process].gathered
    processes[process].gathered = []
    let isOpen = processes[process].breaker.fault == nil
    let next = gathered.filter { id in
      if isOpen, !outbox.holds(conversation: messages[id].conversation) { return true }
      hold(id)
      return false
    }
    if !next.isEmpty { send(next, by: process) }
  }

  private mutating func delivered(_ id: Int) {
    guard !messages[id].isOver else {
      outcome.repeated += 1
      return
    }
    messages[id].isOver = true
    outcome.delivered += 1
    outcome.waits.add(queue.now - messages[id].submitted)
    let conversation = messages[id].conversation
    if let last = lastDelivered[conversation], last > id { outcome.overtaken += 1 }
    lastDelivered[conversation] = max(lastDelivered[conversation] ?? id, id)
  }

  // MARK: The breaker

  private mutating func apply(_ change: PeerBreaker.Change, to process: Int) {
    switch change {
    case .none: return
    case .opened(let fault, let isOurs):
      outcome.opened.append((queue.now - .seconds(settings.awayAfter)).inSeconds)
      processes[process].probeBegan = queue.now
      if !processes[process].isProbing {
        processes[process].isProbing = true
        // Another process's finding is looked at soon.
        if isOurs, fault != .refused {
          planProbe(process)
        } else {
          queue.add(.probe(process: process), after: Self.news)
        }
      }
      if isOurs, !processes[process].breaker.isPrivate { share(process) }
    case .redefined, .disclosed: share(process)
    case .closed(let isOurs):
      outcome.closed.append((queue.now - back).inSeconds)
      if isOurs { share(process) }
    }
  }

  private static let news = Duration.milliseconds(100)

  private mutating func share(_ process: Int) {
    let condition = processes[process].breaker.condition
    guard condition != shared else { return }
    if condition.isReachable, !shared.isReachable { isReturned = true }
    shared = condition
    for other in processes.indices {
      queue.add(.tableRead(process: other, condition), after: Self.signal)
    }
  }

  private mutating func planProbe(_ process: Int) {
    let due = limits.probeDue(
      after: time.instant(processes[process].probeBegan), now: time.instant(queue.now), spread: random.share())
    queue.add(.probe(process: process), at: time.since(due))
  }

  private mutating func probe(_ process: Int) {
    guard processes[process].breaker.fault != nil else {
      processes[process].isProbing = false
      return
    }
    outcome.probes += 1
    processes[process].probeBegan = queue.now
    guard isAway else { return queue.add(.probeDone(process: process, isAnswered: true), after: roundTrip) }
    guard settings.isSilent else { return queue.add(.probeDone(process: process, isAnswered: false), after: roundTrip) }
    let timeout = queue.now + limits.probeTimeout
    // A peer that stood still answers when it goes on.
    queue.add(.probeDone(process: process, isAnswered: back + roundTrip < timeout), at: min(timeout, back + roundTrip))
  }

  private mutating func probeDone(_ process: Int, _ isAnswered: Bool) {
    if isAnswered {
      apply(processes[process].breaker.answered(), to: process)
    } else {
      apply(processes[process].breaker.failed(fault, now: now), to: process)
    }
    if processes[process].breaker.fault == nil { processes[process].isProbing = false } else { planProbe(process) }
  }

  // MARK: The outbox

  private mutating func tick() {
    queue.add(.tick, after: Outbox.tick)
    let isDue = isReturned || lastReading.map { queue.now - $0 >= Outbox.readingInterval } ?? true
    guard isDue, !isBusy else { return }
    lastReading = queue.now
    expire()
    guard shared.isReachable, outbox.count > 0 else { return }
    if isReturned {
      isReturned = false
      pausedUntil = .zero
      outbox.makeDue(at: now)
    }
    guard queue.now >= pausedUntil, outbox.isAnythingDue(at: now) else { return }
    isBusy = true
    pass = OutboxPass()
    nextWave()
  }

  private mutating func expire() {
    while let held = outbox.oldest, policy.isTooOld(held.accepted, at: now) {
      giveUp(held)
    }
  }

  private mutating func giveUp(_ held: HeldMessage) {
    let id = outbox.message(of: held.sequence)
    if !messages[id].isOver { outcome.givenUp += 1 }
    messages[id].isOver = true
    remove(held)
  }

  private mutating func nextWave() {
    guard var pass else { return }
    var wave = pass.nextWave(at: now, isInOrder: true)
    while wave.isEmpty {
      let page = outbox.page(after: pass.last, limit: OutboxPass.waveMax)
      if page.isEmpty { return endPass() }
      pass.pageRead(page)
      wave = pass.nextWave(at: now, isInOrder: true)
    }
    self.pass = pass
    let isUnanswered = isAway && settings.isSilent
    queue.add(
      .waveDone(wave),
      at: isUnanswered ? min(queue.now + limits.requestTimeout, back + roundTrip) : queue.now + duration(of: wave.count)
    )
  }

  private mutating func endPass() {
    pass = nil
    isBusy = false
  }

  private mutating func waveDone(_ wave: [HeldMessage]) {
    guard var pass else { return }
    // The request failed: no message was tried. It counts for the breaker of the process that has the lease.
    guard !isAway else {
      outcome.failedRequests += 1
      apply(processes[0].breaker.failed(fault, now: now), to: 0)
      return endPass()
    }
    apply(processes[0].breaker.answered(), to: 0)
    var putOff: Set<Int> = []
    for held in wave {
      let id = outbox.message(of: held.sequence)
      let conversation = messages[id].conversation
      // Behind a message that is put off the peer takes none of the same conversation.
      let isTaken = !putOff.contains(conversation) && takes(conversation)
      if !isTaken { putOff.insert(conversation) }
      let answer = HandOverAnswer(status: isTaken ? 200 : 503)
      switch policy.action(after: answer, attempts: held.attempts) {
      case .delivered:
        delivered(id)
        remove(held)
        pass.settled()
      case .putOff(let pause):
        if pass.putOff(held) {
          let next = now.adding(pause)
          outbox.putOff(held.sequence, until: next)
        }
      case .giveUp:
        giveUp(held)
        pass.settled()
      }
    }
    self.pass = pass
    if pass.isHopeless {
      pausedUntil = queue.now + Outbox.strugglePause
      return endPass()
    }
    nextWave()
  }

  /// The peer's limit for what waited in an outbox.
  private mutating func takes(_ conversation: Int) -> Bool {
    var level = buckets[conversation] ?? LeakyBucket(bucket, at: now)
    let decision = level.take(1, from: bucket, at: now)
    buckets[conversation] = level
    return decision == .allowed
  }
}
