import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore

/// A refusal of the operator API: `{"error":"WORD","message":"..."}`.
struct APIProblem: Error {
  let status: HTTPResponse.Status
  let word: String
  /// For people. Repeats nothing of the request.
  let message: String
  var headers = HTTPFields()

  init(_ status: HTTPResponse.Status, _ word: String, _ message: String) {
    self.status = status
    self.word = word
    self.message = message
  }

  var response: Response {
    var headers = headers
    headers[.contentType] = "application/json"
    let text = #"{"error":\#(JSONText.quoted(word)),"message":\#(JSONText.quoted(message))}"#
    return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: text + "\n")))
  }

  static let noAccount = APIProblem(.notFound, "no-account", "There is no such account here.")
  static let notReady = unavailable("The store has not answered yet: /readyz says more.")

  static func unavailable(_ message: String) -> APIProblem {
    var problem = APIProblem(.serviceUnavailable, "unavailable", message)
    problem.headers[.retryAfter] = "5"
    return problem
  }

  init(_ error: any Error) {
    switch error {
    case let problem as APIProblem: self = problem
    case let problem as Problem where problem.kind == .unavailable:
      self = .unavailable(problem.reason ?? problem.kind.text)
    case let problem as Problem:
      self.init(.init(code: problem.kind.status), problem.kind.rawValue, problem.kind.text)
    case StoreError.unavailable(let reason): self = .unavailable("The store does not answer: \(reason).")
    case let error as HTTPError where error.status == .notFound:
      self.init(.notFound, "not-found", "There is no such resource.")
    default:
      // The type says enough to find the place; the text could carry request data.
      self.init(.internalServerError, "internal", "The relay failed: \(type(of: error)).")
    }
  }
}

/// Texts as JSON strings.
enum JSONText {
  static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}
