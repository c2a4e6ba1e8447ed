import HTTPTypes
package import Hummingbird
import NIOCore
package import RelayCore

extension Problem {
  /// The answer as the wire shows it.
  package var response: Response {
    let (headers, body) = content
    return Response(
      status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
  }

  var status: HTTPResponse.Status { HTTPResponse.Status(code: kind.status) }

  /// The content of the answer, beside the status.
  var content: (headers: HTTPFields, body: [UInt8]) {
    var headers = HTTPFields()
    if let seconds = retryAfterSeconds { headers[.retryAfter] = String(seconds) }
    if kind == .unauthorized { headers[.wwwAuthenticate] = "Basic realm=\"WhisperServer\"" }
    if let devices {
      headers[.contentType] = "application/json"
      return (headers, devices.json)
    }
    headers[.contentType] = "text/plain; charset=utf-8"
    return (headers, Array((kind.rawValue + ": " + text + "\n").utf8))
  }

  /// Whole seconds, rounded up, at least 1.
  package var retryAfterSeconds: Int64? {
    guard let (seconds, attoseconds) = retryAfter?.components else { return nil }
    return max(1, seconds + (attoseconds > 0 ? 1 : 0))
  }
}
