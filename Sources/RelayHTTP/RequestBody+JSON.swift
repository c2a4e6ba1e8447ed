// Bounded JSON bodies in, exact answers out: what every controller of every edge needs.

import HTTPTypes
package import Hummingbird
package import NIOCore
package import RelayCore

extension Request {
  /// Reads the whole JSON body, up to `max` bytes.
  ///
  /// - Throws: `.unsupportedMediaType` unless the body is declared as `application/json` (parameters are ignored,
  ///   reference 1.1), `.bodyTooLarge` before more than `max` bytes are held, `.malformedBody` when the connection
  ///   ends inside it.
  package func jsonBody(max: Int) async throws(Problem) -> ByteBuffer {
    guard Self.isJSON(headers[.contentType]) else { throw Problem(.unsupportedMediaType) }
    if let length = headers[.contentLength].flatMap({ Int($0) }), length > max { throw Problem(.bodyTooLarge) }
    do {
      return try await body.collect(upTo: max)
    } catch is NIOTooManyBytesError {
      throw Problem(.bodyTooLarge)
    } catch {
      throw Problem(.malformedBody)
    }
  }

  private static func isJSON(_ contentType: String?) -> Bool {
    guard let contentType else { return false }
    if contentType == "application/json" { return true }
    let mediaType = contentType.prefix { $0 != ";" }
    return mediaType.utf8.count <= 64
      && mediaType.lowercased().trimmingPrefix { $0 == " " }.prefix { $0 != " " } == "application/json"
  }
}

extension ByteBuffer {
  /// Runs `decode` over the readable bytes; what it refuses becomes the wire's refusal.
  package func decodeJSON<Value>(_ decode: (RawSpan) throws(JSONError) -> Value) throws(Problem) -> Value {
    do throws(JSONError) {
      return try decode(readableBytesUInt8Span.bytes)
    } catch {
      throw Problem(error)
    }
  }
}

extension Response {
  /// 200 with a JSON body.
  package static func json(_ bytes: [UInt8]) -> Response {
    Response(
      status: .ok, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }

  /// 200 with nothing in it: what every operation answers that returns nothing (reference 1.1).
  package static var done: Response {
    Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer()))
  }
}
