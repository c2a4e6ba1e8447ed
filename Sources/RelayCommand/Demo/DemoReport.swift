import Foundation
import Glibc

/// Why the demo ended before its end.
struct DemoFailure: Error, CustomStringConvertible {
  let description: String
  /// The relay whose log tells more, if any.
  let relay: String?

  init(_ description: String, relay: String? = nil) {
    self.description = description
    self.relay = relay
  }
}

/// Shows the demo's steps to a person: what was asked of whom, the answer, the time it took.
struct DemoReport: Sendable {
  private let isColoured: Bool

  /// - Parameter environment: `NO_COLOR`, set to anything, and `TERM=dumb` turn colour off; so does any output that
  ///   is no terminal.
  init(environment: [String: String]) {
    let refused = !(environment["NO_COLOR"] ?? "").isEmpty || environment["TERM"] == "dumb"
    isColoured = !refused && isatty(STDOUT_FILENO) == 1
  }

  /// Runs one step and shows it.
  /// - Parameters:
  ///   - relay: whom it is asked of.
  ///   - request: what is asked.
  ///   - body: does it, and says what to show as its answer.
  /// - Throws: `DemoFailure` whatever `body` throws, after it was shown; a cancellation as it is.
  func step<Value>(_ relay: String, _ request: String, _ body: () async throws -> (Value, String)) async throws -> Value
  {
    let start = ContinuousClock.now
    do {
      let (value, answer) = try await body()
      line(painted("ok", .green), relay, request, answer, ContinuousClock.now - start)
      return value
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      line(painted("!!", .red), relay, request, painted("failed", .red), ContinuousClock.now - start)
      throw DemoFailure("\(request): \(error)", relay: relay)
    }
  }

  func heading(_ text: String) { write("\n" + painted(text, .bold)) }
  func text(_ text: String) { write(text) }
  func failure(_ text: String) { write("\n" + painted("The demo failed: ", .red) + text) }
  func quoted(_ lines: some Sequence<Substring>) {
    for line in lines { write(painted("  | ", .dim) + line) }
  }

  private func line(_ mark: String, _ relay: String, _ request: String, _ answer: String, _ time: Duration) {
    let took = Self.padded("\(Self.milliseconds(time))", 10, atEnd: false)
    write(
      "  \(mark)  \(painted(Self.padded(relay, 6), .cyan))\(Self.padded(request, 50))\(painted(took, .dim))  \(answer)")
  }

  /// As a person reads it: `4.2 ms`, `1.30 s`.
  static func milliseconds(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    let millis = Double(seconds) * 1000 + Double(attoseconds) / 1e15
    return millis < 1000 ? String(format: "%.1f ms", millis) : String(format: "%.2f s", millis / 1000)
  }

  private static func padded(_ text: String, _ width: Int, atEnd: Bool = true) -> String {
    let padding = String(repeating: " ", count: max(atEnd ? 1 : 0, width - text.count))
    return atEnd ? text + padding : padding + text
  }

  private enum Paint: String {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
    case cyan = "36"
  }

  private func painted(_ text: String, _ paint: Paint) -> String {
    isColoured ? "\u{1B}[\(paint.rawValue)m\(text)\u{1B}[0m" : text
  }

  /// Unbuffered, so that a reader of a pipe sees a step when it happens. A failure is ignored: if the output is
  /// closed, there is no reader to tell.
  private func write(_ line: String) { try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8)) }
}
