/// The YAML parser's message, without the excerpt of the file that it adds: the excerpt could hold a secret.
struct YAMLComplaint: Error {
  let line: Int?
  /// Dotted; there when the complaint has it in the place of a line.
  let key: String?
  let text: String

  init(line: Int?, _ text: String) {
    self.line = line
    key = nil
    self.text = text
  }

  init(_ error: any Error) {
    self = error as? YAMLComplaint ?? YAMLComplaint(String(describing: error))
  }

  /// - Parameter description: `LINE:COLUMN: error: STAGE: [CONTEXT\n]PROBLEM:\nEXCERPT`, or one line with
  ///   `in line LINE, column COLUMN` or `in array at KEY` somewhere behind it, or with neither.
  init(_ description: String) {
    let parts = description.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let head = parts[0].split(separator: ":", maxSplits: 4, omittingEmptySubsequences: false)
    if head.count == 5, let line = Int(head[0]), Int(head[1]) != nil {
      (self.line, key) = (line, nil)
      let isWhole = parts[0].hasSuffix(":")
      let problem = isWhole || parts.count < 2 ? String(head[4]) : "\(head[4]), \(parts[1])"
      var text = problem.drop { $0 == " " }
      while text.hasSuffix(":") { text.removeLast() }
      self.text = String(text)
      return
    }
    line = description.word(behind: "in line ").flatMap { Int($0) }
    key = description.word(behind: "in array at ")
    text = parts[0].hasPrefix("Parser: ") ? String(parts[0].dropFirst("Parser: ".count)) : parts[0]
  }
}

extension String {
  /// The text behind `mark` up to the next space, comma or line's end.
  fileprivate func word(behind mark: String) -> String? {
    firstRange(of: mark).map { String(self[$0.upperBound...].prefix { !$0.isWhitespace && $0 != "," }) }
  }
}
