// Bounded bodies in, exact answers out: what every controller of every edge needs.

import HTTPTypes
package import Hummingbird
package import NIOCore
package import RelayCore

extension Request {
  /// Reads the whole JSON body, up to `max` bytes.
  ///
  /// - Parameter limit: the longest time that it may take. A caller that sends a body bit by bit keeps the listener's
  ///   idle timer from ever firing. Here no bit is taken after this time. If a bit is waited for, the idle timer ends
  ///   the request.
  /// - Throws: `.unsupportedMediaType` unless the body is declared as `application/json` (parameters are ignored,
  ///   reference 1.1). `.bodyTooLarge` before more than `max` bytes are held. `.malformedBody` when the connection or
  ///   `limit` ends inside it. `.unavailable` when it gives way to later bodies, before it is whole (`BodyRoom`).
  package func jsonBody(max: Int, within limit: Duration = .seconds(60)) async throws(Problem) -> ByteBuffer {
    try await body(as: "application/json", max: max, within: limit)
  }

  /// `jsonBody` of another media type.
  /// - Parameter mediaType: in lower case.
  package func body(as mediaType: String, max: Int, within limit: Duration = .seconds(60)) async throws(Problem)
    -> ByteBuffer
  {
    var received = 0
    return try await body(as: mediaType, max: max, within: limit, counting: &received)
  }

  /// - Parameters:
  ///   - received: is raised by the bytes that came, when it fails too: at most by `max` and one part of the body.
  ///   - room: for what has come until the rest is there. A body that has to give way is `.unavailable`.
  package func body(
    as mediaType: String, max: Int, within limit: Duration = .seconds(60), counting received: inout Int,
    in room: BodyRoom = .process
  ) async throws(Problem) -> ByteBuffer {
    guard Self.isDeclared(headers[.contentType], as: mediaType) else { throw Problem(.unsupportedMediaType) }
    if let length = declaredLength, length > max { throw Problem(.bodyTooLarge) }
    do {
      return try await collect(upTo: max, until: .now + limit, counting: &received, in: room)
    } catch let problem as Problem {
      throw problem
    } catch {
      throw Problem(.malformedBody)
    }
  }

  private func collect(
    upTo max: Int, until deadline: ContinuousClock.Instant, counting received: inout Int, in room: BodyRoom
  ) async throws -> ByteBuffer {
    var whole = ByteBuffer()
    var partial: PartialBody?
    var count = 0
    defer { partial?.end() }
    for try await part in body {
      received += part.readableBytes
      guard .now < deadline else { throw Problem(.malformedBody) }
      guard part.readableBytes <= max - count else { throw Problem(.bodyTooLarge) }
      guard part.readableBytes > 0 else { continue }
      count += part.readableBytes
      // Most bodies come in one part, which is not copied.
      guard partial != nil || count != declaredLength else {
        whole = part
        continue
      }
      let held = partial ?? PartialBody(in: room)
      partial = held
      guard held.append(part) else { throw Self.noRoom }
    }
    guard .now < deadline else { throw Problem(.malformedBody) }
    guard let partial else { return whole }
    guard let collected = partial.take() else { throw Self.noRoom }
    return collected
  }

  private static let noRoom = Problem(
    .unavailable, retryAfter: .seconds(2), reason: "too many bodies had come in part")

  /// The `Content-Length`, if there is one.
  package var declaredLength: Int? { headers[.contentLength].flatMap { Int($0) } }

  private static func isDeclared(_ contentType: String?, as expected: String) -> Bool {
    guard let contentType else { return false }
    if contentType == expected { return true }
    let mediaType = contentType.prefix { $0 != ";" }
    return mediaType.utf8.count <= 64
      && mediaType.lowercased().trimmingPrefix { $0 == " " }.prefix { $0 != " " } == expected
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
