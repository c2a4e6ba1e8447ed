import Glibc
import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayCore

/// Answers that are written before, or instead of, anything that serves HTTP.
enum PlainAnswer {
  /// As `ProblemMiddleware` answers it. It is the last of its connection.
  /// - Parameter method: of the request: to HEAD, only what the body would be is said.
  static func bytes(_ problem: Problem, to method: HTTPMethod, id: RequestID) -> ByteBuffer {
    let (headers, body) = problem.content
    var fields = headers.map { ($0.name.canonicalName, $0.value) }
    fields.append((HTTPField.Name.requestID.canonicalName, id.description))
    switch problem.kind {
    case .upgradeRequired: fields += [("upgrade", "websocket"), ("sec-websocket-version", "13")]
    case .methodNotAllowed: fields.append(("allow", "GET"))
    default: break
    }
    return last(problem.status, fields, body, isWhole: method != .HEAD)
  }

  /// To what is no HTTP.
  static var badRequest: ByteBuffer { last(.badRequest, [], []) }

  static func switching(_ headers: HTTPHeaders) -> ByteBuffer {
    head(.switchingProtocols, headers.map { ($0.name, $0.value) })
  }

  private static func last(
    _ status: HTTPResponse.Status, _ fields: [(String, String)], _ body: [UInt8], isWhole: Bool = true
  ) -> ByteBuffer {
    let isUpgrade = fields.contains { $0.0 == "upgrade" }
    var bytes = head(
      status,
      fields + [
        ("connection", isUpgrade ? "close, upgrade" : "close"), ("content-length", String(body.count)), ("date", date),
      ])
    if isWhole { bytes.writeBytes(body) }
    return bytes
  }

  /// - Parameter fields: all of our own making.
  private static func head(_ status: HTTPResponse.Status, _ fields: [(String, String)]) -> ByteBuffer {
    var text = "HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n"
    for (name, value) in fields { text += "\(name): \(value)\r\n" }
    return ByteBuffer(string: text + "\r\n")
  }

  /// The present, as RFC 9110, 5.6.7 wants it.
  static var date: String {
    var now = time(nil)
    var parts = tm()
    gmtime_r(&now, &parts)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
      let count = strftime(text.baseAddress, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
      return String(decoding: text.prefix(count).lazy.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
  }
}
