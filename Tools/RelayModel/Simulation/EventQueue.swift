import HeapModule

/// What is to happen, by its time. Events of one moment come in the order in which they were added.
struct EventQueue<Event> {
  private struct Entry: Comparable {
    let time: Duration
    let order: UInt64
    let event: Event

    static func < (a: Self, b: Self) -> Bool { (a.time, a.order) < (b.time, b.order) }
    static func == (a: Self, b: Self) -> Bool { (a.time, a.order) == (b.time, b.order) }
  }

  private var entries = Heap<Entry>()
  private var added: UInt64 = 0
  /// The time of the event that came last, since the beginning.
  private(set) var now = Duration.zero

  /// - Parameter time: not before `now`; an earlier one counts as now.
  mutating func add(_ event: Event, at time: Duration) {
    entries.insert(Entry(time: max(time, now), order: added, event: event))
    added += 1
  }

  mutating func add(_ event: Event, after pause: Duration) { add(event, at: now + pause) }

  /// - Returns: nil when nothing is left, or nothing up to `end`.
  mutating func next(until end: Duration) -> Event? {
    guard let first = entries.min, first.time <= end else { return nil }
    entries.removeMin()
    now = first.time
    return first.event
  }
}
