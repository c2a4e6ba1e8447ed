/// Whether a request may begin while others are unanswered. No clock and no lock: `RequestLoad` has both.
///
/// A relay answers as fast as its machine and its stores allow, and that changes. So the limit follows what it has
/// answered within the last second: more unanswered requests than it answers within `target` only make everybody wait.
/// A burst is let in, for it is soon over. A queue beyond the limit that stands for `patience` is overload. From then
/// on, requests beyond the limit are refused, until no more than half of it is unanswered.
///
/// | state | becomes |
/// |---|---|
/// | served | overloaded, when the queue has been at the limit for `patience` |
/// | overloaded | served, when the queue is at half of the limit |
struct OverloadRule {
  struct Bounds: Sendable {
    /// The time that a request waits behind others, at most, once requests are refused.
    var target = Duration.milliseconds(250)
    /// Longer than a slow commit.
    var patience = Duration.milliseconds(500)
    /// So many are always let in: fewer would not fill the batches that the stores are written in.
    var unansweredMin = 256
  }

  private let bounds: Bounds
  private var unanswered = 0
  /// Unanswered requests that wait for others than this relay: a slow peer does not make it overloaded.
  private var elsewhere = 0
  /// Answers of the last second, a tenth each.
  private var answers = [Int](repeating: 0, count: 10)
  private var present = 0
  private var presentBegan: ContinuousClock.Instant
  private var isAtLimitSince: ContinuousClock.Instant?
  private(set) var isOverloaded = false

  init(bounds: Bounds = Bounds(), now: ContinuousClock.Instant) {
    self.bounds = bounds
    presentBegan = now
  }

  /// A request has come: its head, and nothing more.
  mutating func admits(now: ContinuousClock.Instant) -> Bool {
    pass(to: now)
    guard queue >= limit else {
      look(now)
      return true
    }
    if isOverloaded { return false }
    let since = isAtLimitSince ?? now
    isAtLimitSince = since
    isOverloaded = now - since >= bounds.patience
    return !isOverloaded
  }

  /// A request that was let in is whole. `ended` follows.
  mutating func began() { unanswered += 1 }

  mutating func ended(now: ContinuousClock.Instant) {
    pass(to: now)
    unanswered -= 1
    answers[present] += 1
    look(now)
  }

  /// One of those under way waits for a peer, or for another server of somebody else. `waitEnded` follows.
  mutating func waitBegan() { elsewhere += 1 }

  mutating func waitEnded(now: ContinuousClock.Instant) {
    pass(to: now)
    elsewhere -= 1
    look(now)
  }

  /// Whether all that began has ended.
  var isIdle: Bool { unanswered == 0 }

  /// A request whose client has gone is counted no more, and may still wait.
  private var queue: Int { max(0, unanswered - elsewhere) }
  private var limit: Int {
    max(bounds.unansweredMin, Int(Double(answers.reduce(0, +)) * (bounds.target / .seconds(1))))
  }

  private mutating func look(_ now: ContinuousClock.Instant) {
    let (queue, limit) = (queue, limit)
    if queue < limit { isAtLimitSince = nil }
    if isOverloaded, queue * 2 <= limit { isOverloaded = false }
  }

  private mutating func pass(to now: ContinuousClock.Instant) {
    let passed = Int((now - presentBegan) / Self.tenth)
    guard passed > 0 else { return }
    presentBegan += Self.tenth * passed
    for _ in 0..<min(passed, answers.count) {
      present = (present + 1) % answers.count
      answers[present] = 0
    }
  }

  private static let tenth = Duration.milliseconds(100)
}
