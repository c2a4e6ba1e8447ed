import Push

/// Which app an app id is for (reference 3).
package struct PushAppSelection: Sendable {
  package enum Choice: Sendable, Equatable {
    /// The index of its name.
    case app(Int)
    case unknown
    /// Several patterns match.
    case ambiguous
  }

  /// Homeservers keep app ids below 64 characters: one that is far longer is nobody's, and must not be compared at
  /// length.
  private static let appIDBytesMax = 1024

  private let exact: [String: Int]
  private let patterns: [(glob: PushGlob, index: Int)]

  /// - Parameter names: app ids and patterns, all different.
  package init(names: [String]) {
    exact = Dictionary(names.enumerated().map { ($0.element, $0.offset) }) { first, _ in first }
    // A name without wildcards matches itself alone.
    patterns = names.enumerated().filter { $0.element.contains { $0 == "*" || $0 == "?" } }
      .map { (PushGlob($0.element), $0.offset) }
  }

  package func app(for appID: String) -> Choice {
    guard appID.utf8.count <= Self.appIDBytesMax else { return .unknown }
    if let index = exact[appID] { return .app(index) }
    var found: Int?
    for pattern in patterns where pattern.glob.matches(appID) {
      guard found == nil else { return .ambiguous }
      found = pattern.index
    }
    return found.map { .app($0) } ?? .unknown
  }
}
