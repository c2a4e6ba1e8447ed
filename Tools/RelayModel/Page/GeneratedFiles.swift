import Foundation

/// Everything that `make model` writes.
struct GeneratedFiles: Sendable {
  let page: String
  let pictures: [(name: String, text: String)]

  /// - Parameters:
  ///   - points: the content of a file of measured points.
  ///   - page: docs/scale.md as it is.
  /// - Throws: `ModelFailure`.
  init(_ constants: Constants, points: Data, page: String) throws {
    let outages = try Outages(constants)
    let measured = try MeasuredPoints(json: points, constants)
    self.page = try ScalePage(constants, measured.points, outages).filled(page)
    pictures = Pictures(constants, outages).files.map { ($0.name, $0.chart.svg) }
  }
}
