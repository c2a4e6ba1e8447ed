import Foundation
import Glibc

/// Asks at a terminal; what was given by an option is not asked for.
struct Questions {
  /// Whether anything is asked at all.
  let isAsking: Bool

  var canAsk: Bool { isatty(STDIN_FILENO) == 1 }

  /// - Parameters:
  ///   - fault: what is wrong with an answer; nil when nothing is.
  ///   - otherwise: for an empty answer; nil where one is needed.
  /// - Throws: `CommandFailure` where nothing is asked and nothing given, and after three wrong answers.
  func text(
    _ question: String, given: String?, otherwise: String?, fault: (String) -> String? = { _ in nil }
  ) throws -> String {
    if let given {
      if let fault = fault(given) { throw CommandFailure("\(question): \(fault)") }
      return given
    }
    guard isAsking else {
      guard let otherwise, fault(otherwise) == nil else {
        throw CommandFailure("\(question): nothing was given. `relay init --help` names the option.")
      }
      return otherwise
    }
    for _ in 0..<3 {
      write("\(question)\(otherwise.map { " [\($0)]" } ?? ""): ")
      guard let line = readLine() else { break }
      let answer = line.trimmingCharacters(in: .whitespaces)
      guard let text = answer.isEmpty ? otherwise : answer else {
        write("An answer is needed.\n")
        continue
      }
      guard let fault = fault(text) else { return text }
      write("\(fault)\n")
    }
    throw CommandFailure("\(question): no answer that can be used. Nothing was written.")
  }

  /// - Returns: nil for an empty answer.
  func optional(_ question: String, given: String?) throws -> String? {
    if let given { return given }
    guard isAsking else { return nil }
    write("\(question): ")
    guard let line = readLine() else { throw CommandFailure("\(question): no answer. Nothing was written.") }
    let answer = line.trimmingCharacters(in: .whitespaces)
    return answer.isEmpty ? nil : answer
  }

  private func write(_ text: String) { try? FileHandle.standardError.write(contentsOf: Data(text.utf8)) }
}
