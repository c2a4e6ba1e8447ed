// A peer's queue without a peer: a test says what comes of each step, and sets the time.

import RelayCore
import RelayWork
import Testing

@testable import Federation

/// Callers are numbers, by which their hand-overs are known too.
struct QueueBench {
  typealias Queue = PeerQueue<Int>

  static let patience = Duration.seconds(2)
  /// How long a caller waits.
  static let timeout = Duration.seconds(10)

  private(set) var queue: Queue
  private(set) var now = ContinuousClock.now
  /// Steps that have begun and are not over, in the order in which they began.
  private(set) var steps: [Queue.Step] = []
  /// In the order in which they were told.
  private(set) var told: [(caller: Int, outcome: Queue.Outcome)] = []
  /// Messages whose answers came without a caller.
  private(set) var notes: [Int] = []
  private(set) var tickets: [Int: Queue.Ticket] = [:]
  /// Requests that were answered, and not noted.
  private(set) var unnoted: [Queue.Batch.ID] = []
  private var timers: [ContinuousClock.Instant] = []

  init(
    batch: Queue.Size = Queue.Size(items: 256, bytes: 4 << 20),
    waitingMax: Queue.Size = Queue.Size(items: 4096, bytes: 16 << 20)
  ) {
    queue = Queue(batch: batch, waitingMax: waitingMax, patience: Self.patience, at: now)
  }

  var timerCount: Int { timers.count }
  /// The callers of what the peer has been asked to take, of each request.
  var sent: [[Int]] {
    steps.compactMap { if case .send(_, let handOvers, _) = $0 { handOvers.map(Self.id) } else { nil } }
  }
  /// The callers of messages that are being held, of each hold.
  var holding: [[Int]] {
    steps.compactMap { if case .hold(_, let parcels, _) = $0 { parcels.map { Self.id($0.handOver) } } else { nil } }
  }
  var lookUpCount: Int { steps.count { if case .lookUp = $0 { true } else { false } } }

  /// - Returns: nil when `caller` has not been told.
  func outcome(of caller: Int) -> Queue.Outcome? { told.first { $0.caller == caller }?.outcome }

  mutating func submit(
    _ callers: Int..., from source: Int = 7, to destination: Int = 0, holds: Bool = true, isAlone: Bool = false,
    isReceipt: Bool = false, bodyBytes: Int = 1
  ) throws {
    for caller in callers {
      let handOver = try Self.handOver(caller, source, destination, isReceipt, bodyBytes)
      let (ticket, actions) = queue.submitted(
        handOver, by: caller, holdsMessages: holds, isAlone: isAlone, until: now + Self.timeout, at: now)
      tickets[caller] = ticket
      take(actions)
    }
  }

  mutating func cancel(_ caller: Int) throws { queue.cancelled(try #require(tickets[caller])) }

  /// Ends the first look-up.
  mutating func lookedUp(held destinations: Int...) throws {
    try lookedUp(.success(Set(destinations.map(Self.destination))))
  }

  mutating func lookedUp(_ held: Result<Set<AccountNumber>, Problem>) throws {
    let index = try #require(steps.firstIndex { if case .lookUp = $0 { true } else { false } })
    guard case .lookUp(let batch, _) = steps.remove(at: index) else { return }
    take(queue.lookedUp(batch, held, at: now))
  }

  /// Ends a request.
  /// - Parameter statuses: of each that was sent; nil for no answer.
  mutating func answer(_ statuses: Int?..., request: Int = 0, isNoted: Bool = true) throws {
    try answer(statuses, request: request, isNoted: isNoted)
  }

  mutating func answer(_ statuses: [Int?], request: Int = 0, isNoted: Bool = true) throws {
    let sends = steps.indices.filter { if case .send = steps[$0] { true } else { false } }
    try #require(sends.indices.contains(request))
    guard case .send(let batch, _, _) = steps.remove(at: sends[request]) else { return }
    let answers = statuses.map { status -> Result<HandOverAnswer, PeerFailure> in
      status.map { .success(HandOverAnswer(status: $0)) } ?? .failure(.timedOut)
    }
    if !isNoted { unnoted.append(batch) }
    take(queue.answered(batch, answers, isNoted: isNoted, at: now))
  }

  /// The store has the note of the first request that was answered without one.
  mutating func note() throws {
    try #require(!unnoted.isEmpty)
    take(queue.noted(unnoted.removeFirst(), at: now))
  }

  /// Ends the first hold.
  /// - Parameter problem: why a message is not held; nil where it is.
  mutating func hold(_ problem: (_ handOver: HandOver) -> Problem? = { _ in nil }) throws {
    let index = try #require(steps.firstIndex { if case .hold = $0 { true } else { false } })
    guard case .hold(let batch, let parcels, let isUnderWay) = steps.remove(at: index) else { return }
    let problems = parcels.map { problem($0.handOver) }
    take(queue.held(batch, parcels, isUnderWay: isUnderWay, problems, at: now))
  }

  mutating func advance(by duration: Duration) {
    let end = now + duration
    while let next = timers.min(), next <= end {
      timers.removeAll { $0 == next }
      now = max(now, next)
      take(queue.timeCame(at: now))
    }
    now = end
  }

  private mutating func take(_ actions: Queue.Actions) {
    steps += actions.steps
    told += actions.outcomes
    notes += actions.notes.compactMap { $0.submission.timestamp.map { Int($0.millis) } }
    if let timer = actions.timer { timers.append(timer) }
  }

  static func id(_ handOver: HandOver) -> Int {
    switch handOver {
    case .message(let submission, _): Int(submission.timestamp?.millis ?? 0)
    case .receipt(let timestamp, _, _): Int(timestamp.millis)
    }
  }

  static func destination(_ index: Int) -> AccountNumber { AccountNumber(e164: "+1415555\(2000 + index)")! }

  private static func handOver(
    _ caller: Int, _ source: Int, _ destination: Int, _ isReceipt: Bool, _ bodyBytes: Int
  ) throws -> HandOver {
    let source = DeviceAddress(try number("+1415555\(1000 + source)"), .master)
    let time = Timestamp(millis: Int64(caller))
    if isReceipt { return .receipt(time, source: source, destination: Self.destination(destination)) }
    let message = SubmittedMessage(
      type: .ciphertext, device: .master, registrationID: 5, body: Array(repeating: 1, count: bodyBytes), content: nil)
    return .message(
      Submission(destination: Self.destination(destination), messages: [message], timestamp: time), source: source)
  }
}
