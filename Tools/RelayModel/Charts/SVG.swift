import Foundation

/// Writes the elements of a picture. Numbers have one decimal, so that the same picture is the same text everywhere.
struct SVG {
  private(set) var lines: [String] = []
  let width: Double
  let height: Double

  init(width: Double, height: Double) {
    self.width = width
    self.height = height
  }

  mutating func line(from: (Double, Double), to: (Double, Double), style: String) {
    lines.append(
      "<line x1=\"\(Self.number(from.0))\" y1=\"\(Self.number(from.1))\" x2=\"\(Self.number(to.0))\" "
        + "y2=\"\(Self.number(to.1))\" class=\"\(style)\"/>")
  }

  mutating func polyline(_ points: [(Double, Double)], style: String) {
    guard !points.isEmpty else { return }
    let text = points.map { "\(Self.number($0.0)),\(Self.number($0.1))" }.joined(separator: " ")
    lines.append("<polyline points=\"\(text)\" class=\"\(style)\"/>")
  }

  mutating func rectangle(x: Double, y: Double, width: Double, height: Double, style: String) {
    lines.append(
      "<rect x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" width=\"\(Self.number(max(0, width)))\" "
        + "height=\"\(Self.number(max(0, height)))\" class=\"\(style)\"/>")
  }

  /// - Parameter anchor: `start`, `middle` or `end`.
  mutating func text(_ text: String, x: Double, y: Double, anchor: String = "start", style: String = "label") {
    lines.append(
      "<text x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" text-anchor=\"\(anchor)\" class=\"\(style)\">"
        + "\(Self.escaped(text))</text>")
  }

  /// - Parameters:
  ///   - title: what a screen reader reads first.
  ///   - description: what the picture shows, in words.
  func document(title: String, description: String) -> String {
    let (w, h) = (Self.number(width), Self.number(height))
    return """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(w) \(h)" role="img" aria-label="\(Self.escaped(title))">
      <title>\(Self.escaped(title))</title>
      <desc>\(Self.escaped(description))</desc>
      <style>
      \(Self.style)
      </style>
      \(lines.joined(separator: "\n"))
      </svg>

      """
  }

  /// A picture has its own ground, light or dark as its reader's screen is.
  private static let style = """
    svg { font-family: system-ui, sans-serif; font-size: 12px; }
    .ground { fill: #ffffff; } .label { fill: #24292f; } .title { fill: #24292f; font-size: 15px; font-weight: 600; }
    .grid { stroke: #d8dee4; stroke-width: 1; } .axis { stroke: #57606a; stroke-width: 1; }
    .bound { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 6 4; }
    .line0, .line1, .line2, .line3 { fill: none; stroke-width: 2; stroke-linejoin: round; }
    .line0 { stroke: #0969da; } .line1 { stroke: #bc4c00; stroke-dasharray: 8 3; }
    .line2 { stroke: #1a7f37; stroke-dasharray: 2 3; } .line3 { stroke: #8250df; stroke-dasharray: 10 3 2 3; }
    .fill0 { fill: #0969da; } .fill1 { fill: #bc4c00; } .fill2 { fill: #1a7f37; } .fill3 { fill: #8250df; }
    @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } .label, .title { fill: #e6edf3; } .grid { stroke: #30363d; } .axis { stroke: #8b949e; }
    .bound { stroke: #ff7b72; } .line0 { stroke: #58a6ff; } .line1 { stroke: #f0883e; } .line2 { stroke: #56d364; }
    .line3 { stroke: #bc8cff; } .fill0 { fill: #58a6ff; } .fill1 { fill: #f0883e; } .fill2 { fill: #56d364; }
    .fill3 { fill: #bc8cff; }
    }
    """

  static func number(_ value: Double) -> String {
    let text = String(format: "%.1f", value.isFinite ? value : 0)
    return text == "-0.0" ? "0.0" : text
  }

  static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
      .replacing("\"", with: "&quot;")
  }
}
