/// How the days of `messages` are divided: which partitions to make, and which can go.
///
/// Every statement on messages locks each partition. So a partition holds one day only while retention is short, and
/// several days beyond that: their number is bounded, whatever the retention. Partitions of different widths lie side
/// by side where the retention was changed.
struct PartitionPlan: Sendable {
  typealias Day = PostgresMailboxDays.Day

  /// Whole days that messages are kept; nil where that is not known.
  let retention: Day?
  /// Partitions begin before they are needed by so many days.
  static let daysAhead: Day = 1
  /// So long a partition holds a single day.
  static let dailyMax: Day = 35
  /// The partitions that `dailyMax` comes to: its days, today, and the one ahead.
  static let countMax = Int(dailyMax + 1 + daysAhead)
  /// As many wide ones hold all of a long retention.
  private static let wideCount: Day = 30
  /// The width of the first that is one too many, when it is not known how long the others stay; four times as wide
  /// each further one.
  private static let spareWidth: Day = 30
  private static let widthMax: Day = 3650

  /// Days of a partition, where there are no others.
  var width: Day {
    guard let retention, retention > Self.dailyMax else { return 1 }
    let days = min(retention, Self.widthMax) + 1 + Self.daysAhead
    return (days + Self.wideCount - 1) / Self.wideCount
  }

  /// The partitions that `today` and the days ahead lack.
  /// - Parameters:
  ///   - existing: ascending, none overlaps another.
  ///   - past: the present as removal may take it; what it lets go is not counted.
  func missing(_ existing: [Range<Day>], today: Day, past: Day) -> [Range<Day>] {
    let firstKept = retention.map { past - $0 } ?? .min
    var made: [Range<Day>] = []
    var day = today
    while day <= today + Self.daysAhead {
      let all = (existing + made).sorted { $0.lowerBound < $1.lowerBound }
      if let covering = all.first(where: { $0.contains(day) }) {
        day = covering.upperBound
        continue
      }
      let staying = all.filter { $0.upperBound > firstKept }
      let next = all.first { $0.lowerBound > day }?.lowerBound ?? .max
      let range = day..<min(day + width(beginning: day, beside: staying), next)
      made.append(range)
      day = range.upperBound
    }
    return made
  }

  /// The partitions that `days` lack, so few that there is room for more.
  /// - Parameter existing: ascending, none overlaps another.
  static func covering(_ days: ClosedRange<Day>, beside existing: [Range<Day>]) -> [Range<Day>] {
    let width = max(1, (Day(days.count) + wideCount - 1) / wideCount)
    var made: [Range<Day>] = []
    var day = days.lowerBound
    while day <= days.upperBound {
      if let covering = existing.first(where: { $0.contains(day) }) {
        day = covering.upperBound
        continue
      }
      let next = existing.first { $0.lowerBound > day }?.lowerBound ?? .max
      let range = day..<min(day + width, next, days.upperBound + 1)
      made.append(range)
      day = range.upperBound
    }
    return made
  }

  /// Wide enough that the room which is left lasts until the oldest of the others goes.
  private func width(beginning day: Day, beside others: [Range<Day>]) -> Day {
    let free = Day(Self.countMax - others.count)
    let spare = free > 0 ? width : max(width, min(Self.spareWidth << min(2 * -free, 6), Self.widthMax))
    guard let retention, let oldest = others.first else { return spare }
    let wait = oldest.upperBound + min(retention, Self.widthMax) + Self.daysAhead - day
    guard wait > 0 else { return spare }
    return max(width, (wait + max(free, 1) - 1) / max(free, 1))
  }

  /// The partitions before `firstKept` that can go: two days' worth, or the oldest one.
  static func going<Item>(_ expired: [Item], days: (Item) -> Range<Day>) -> [Item] {
    var count: Day = 0
    return expired.prefix { item in
      defer { count += Day(days(item).count) }
      return count == 0 || count + Day(days(item).count) <= daysGoingMax
    }.map { $0 }
  }

  private static let daysGoingMax: Day = 2
}
