import HTTPTypes
package import Hummingbird
import NIOCore
package import RelayCore

extension Problem {
  /// The answer as the wire shows it.
  package var response: Response {
    var headers = HTTPFields()
    if let seconds = retryAfterSeconds { headers[.retryAfter] = String(seconds) }
    if kind == .unauthorized { headers[.wwwAuthenticate] = "Basic realm=\"WhisperServer\"" }
    if let devices {
      headers[.contentType] = "application/json"
      return answer(headers, devices.json)
    }
    headers[.contentType] = "text/plain; charset=utf-8"
    return answer(headers, Array((kind.rawValue + ": " + kind.text + "\n").utf8))
  }

  private func answer(_ headers: HTTPFields, _ body: [UInt8]) -> Response {
    Response(
      status: HTTPResponse.Status(code: kind.status), headers: headers,
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
  }

  /// Whole seconds, rounded up, at least 1.
  package var retryAfterSeconds: Int64? {
    guard let (seconds, attoseconds) = retryAfter?.components else { return nil }
    return max(1, seconds + (attoseconds > 0 ? 1 : 0))
  }
}
