import RelayCore

/// The part of one kind of budget that a relay has left at a peer (docs/federation.md, "Budgets").
package struct RemainingBudget: Sendable, Equatable {
  /// As in `limits`: `peer-requests`.
  package let name: String
  package let size: Int64
  package let perMinute: Int64
  /// The part that is left.
  package let space: Int64

  /// Less than a tenth is left.
  package var isLow: Bool { space * 10 < size }

  /// Reads the answer to `GET /v1/federation/budget`. Fractions are cut off.
  /// - Returns: at most `budgetsMax`; what is no limiter's name is left out.
  static func decode(_ json: RawSpan) throws(JSONError) -> [RemainingBudget] {
    var reader = JSONReader(json)
    var budgets: [RemainingBudget] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "budgets") else {
        try reader.skip()
        continue
      }
      try reader.beginArray()
      while try reader.nextElement() {
        guard budgets.count < budgetsMax else { throw .tooLarge }
        if let budget = try decodeOne(&reader) { budgets.append(budget) }
      }
    }
    try reader.finish()
    return budgets
  }

  @_lifetime(reader: copy reader)
  private static func decodeOne(_ reader: inout JSONReader) throws(JSONError) -> RemainingBudget? {
    var name: String?
    var (size, perMinute, space): (Int64, Int64, Int64) = (0, 0, 0)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "name") {
        name = try reader.string()
      } else if reader.matches(key, "size") {
        size = try reader.integer() ?? 0
      } else if reader.matches(key, "perMinute") {
        perMinute = try reader.integer() ?? 0
      } else if reader.matches(key, "space") {
        space = try reader.integer() ?? 0
      } else {
        try reader.skip()
      }
    }
    // Names of limiters look like names of relays: nothing else of a stranger is shown.
    guard let name, RelayName(name) != nil else { return nil }
    return RemainingBudget(name: name, size: bounded(size), perMinute: bounded(perMinute), space: bounded(space))
  }

  private static func bounded(_ value: Int64) -> Int64 { min(max(value, 0), 1 << 53) }
  private static let budgetsMax = 50
}
