// How rules judge. A failed expectation ends its rule, naming what was expected and what came instead.

/// A rule that the server does not keep.
package struct RuleFailure: Error, Sendable, Equatable {
  package let expected: String
  /// Never a credential, a code or a number.
  package let got: String
  /// The request, in the form `METHOD /path/{number}`.
  package let request: String?
  package init(expected: String, got: String, request: String? = nil) {
    self.expected = expected
    self.got = got
    self.request = request
  }
}

/// The server limited the suite for longer than it waits: neither kept nor broken.
struct RuleLimited: Error { let retryAfter: Int? }

/// A rule that cannot be shown on this server.
struct RuleSkipped: Error { let reason: String }

extension Answer {
  @discardableResult
  func expect(_ statuses: Int..., because reason: String? = nil) throws(RuleFailure) -> Answer {
    guard !statuses.contains(status) else { return self }
    let list = statuses.map(String.init).joined(separator: " or ")
    throw RuleFailure(
      expected: "status \(list)" + (reason.map { ", \($0)" } ?? ""), got: summary, request: request)
  }

  /// Any refusal: the rule does not say which.
  func expectRefusal() throws(RuleFailure) {
    guard !(400..<500).contains(status) else { return }
    throw RuleFailure(expected: "a refusal, status 400 to 499", got: summary, request: request)
  }

  /// 200 and not one byte.
  func expectDone() throws(RuleFailure) {
    try expect(200)
    try expect(body.isEmpty, "an empty body", "\(body.count) bytes")
  }

  /// `status` and a JSON body. - Returns: the body.
  @discardableResult
  func expectJSON(_ status: Int = 200) throws(RuleFailure) -> JSON {
    try expect(status)
    try expect(mediaType == "application/json", "application/json", headers["content-type"] ?? "no Content-Type")
    guard let json = JSON(bytes: body) else {
      throw RuleFailure(expected: "a JSON body", got: "\(body.count) other bytes", request: request)
    }
    return json
  }

  /// `status` and exactly this JSON.
  func expect(_ status: Int, json expected: JSON) throws(RuleFailure) {
    let json = try expectJSON(status)
    try expect(json == expected, shown(expected), shown(json))
  }

  func expect(_ isKept: Bool, _ expected: String, _ got: @autoclosure () -> String) throws(RuleFailure) {
    guard !isKept else { return }
    throw RuleFailure(expected: expected, got: got(), request: request)
  }

  /// The array under `key` of a 200 answer.
  func list(_ key: String) throws(RuleFailure) -> [JSON] {
    let json = try expectJSON()
    guard let list = json[key]?.array else {
      throw RuleFailure(expected: "an array \(key)", got: shown(json), request: request)
    }
    return list
  }
}

func expect(_ isKept: Bool, _ expected: String, _ got: @autoclosure () -> String) throws(RuleFailure) {
  guard !isKept else { return }
  throw RuleFailure(expected: expected, got: got())
}

func expectEqual<Value: Equatable>(_ value: Value, _ expected: Value, _ what: String) throws(RuleFailure) {
  try expect(value == expected, "\(what): \(expected)", "\(value)")
}

/// At most 300 characters of `json`, its longer texts and numbers left out.
func shown(_ json: JSON) -> String {
  let text: String
  switch json {
  case .null: text = "null"
  case .boolean(let value): text = "\(value)"
  case .integer(let value): text = "\(value)"
  case .decimal(let value): text = "\(value)"
  case .string(let value):
    text = value.utf8.count > 24 ? "\"…\"" : value.hasPrefix("+") ? "\"{number}\"" : "\"\(value)\""
  case .array(let values): text = "[" + values.map(shown).joined(separator: ", ") + "]"
  case .object(let values):
    text = "{" + values.sorted { $0.key < $1.key }.map { "\($0.key): \(shown($0.value))" }.joined(separator: ", ") + "}"
  }
  return text.count > 300 ? text.prefix(300) + "…" : text
}
