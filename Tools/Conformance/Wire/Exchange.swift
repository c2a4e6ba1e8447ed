// One request and its answer, as rules state and judge them.

import RelayCore

/// A request as it goes out: nothing is added to it but `Host` and the length of its body.
struct Exchange: Sendable {
  enum Body: Sendable {
    case none
    case whole([UInt8])
    /// Sent without a length.
    case chunked([UInt8])
  }

  var method: String
  /// Begins with `/`, percent-encoded or not; or a whole URL.
  var path: String
  var headers: [(name: String, value: String)] = []
  var body = Body.none

  init(_ method: String, _ path: String) {
    self.method = method
    self.path = path
  }

  /// For reports: the method and the path's form, without numbers, codes, tokens and signatures.
  var description: String {
    guard path.hasPrefix("/") else { return "\(method) the attachment's location" }
    let parts = path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    var previous = ""
    let segments = parts[0].split(separator: "/", omittingEmptySubsequences: false).map { segment in
      defer { previous = String(segment) }
      if segment.hasPrefix("+") || segment.hasPrefix("%2B") { return previous == "directory" ? "{token}" : "{number}" }
      if previous == "directory", segment != "tokens" { return "{token}" }
      return segment.utf8.count > 4 && segment.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? "{n}" : String(segment)
    }
    return "\(method) \(segments.joined(separator: "/"))" + (parts.count > 1 ? "?…" : "")
  }
}

/// A whole answer, its body bounded.
struct Answer: Sendable {
  let request: String
  let status: Int
  /// Names in lower case; of repeated fields the last.
  let headers: [String: String]
  let body: [UInt8]

  var text: String { String(decoding: body, as: UTF8.self) }
  /// The media type without its parameters, in lower case.
  var mediaType: String? {
    headers["content-type"]?.split(separator: ";").first.map { $0.lowercased().filter { $0 != " " } }
  }

  /// Whole seconds that a 413 or 503 asks to wait.
  var retryAfter: Int? { headers["retry-after"].flatMap { Int($0) } }

  /// For reports: the status, and of a refusal what it says in one line.
  var summary: String {
    guard status >= 400 else { return "\(status)" }
    let line = body.prefix { $0 != UInt8(ascii: "\n") }.prefix(120).filter { (0x20...0x7E).contains($0) }
    return line.isEmpty ? "\(status)" : "\(status) (\(String(decoding: line, as: UTF8.self)))"
  }
}
