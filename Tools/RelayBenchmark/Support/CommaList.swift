import ArgumentParser

/// One argument that names one thing or several, with commas between them.
struct CommaList<Element: ExpressibleByArgument & Sendable>: ExpressibleByArgument, Sendable {
  /// At least one.
  let elements: [Element]

  init?(argument: String) {
    let parts = argument.split(separator: ",", omittingEmptySubsequences: false)
    elements = parts.compactMap { Element(argument: String($0)) }
    guard elements.count == parts.count else { return nil }
  }

  static var allValueStrings: [String] { Element.allValueStrings }
}
