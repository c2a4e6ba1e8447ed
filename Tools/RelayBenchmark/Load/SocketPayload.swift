import Foundation
import NIOCore
import SwiftProtobuf
import WireMessages

/// The content of a binary frame of a device's WebSocket (reference 1.12.4, 2.9).
enum SocketPayload {
  /// A message from the relay.
  enum Received {
    case delivery(id: UInt64, envelope: Data)
    case answer(status: UInt32)
  }

  private static let (request, response): (UInt32, UInt32) = (1, 2)

  static func read(_ bytes: ByteBuffer) throws -> Received {
    let message = try Textsecure_WebSocketMessage(serializedBytes: Array(bytes.readableBytesView))
    switch message.type {
    case request where message.request.verb == "PUT" && message.request.path == "/api/v1/message":
      return .delivery(id: message.request.id, envelope: message.request.body)
    case response where message.hasResponse: return .answer(status: message.response.status)
    default: throw BenchmarkFailure("the relay sent a frame that is no delivery and no answer")
    }
  }

  /// Says that a delivery has arrived.
  static func acknowledgement(of id: UInt64) throws -> ByteBuffer {
    var message = Textsecure_WebSocketMessage()
    message.type = response
    message.response.id = id
    message.response.status = 200
    message.response.message = "OK"
    let bytes: [UInt8] = try message.serializedBytes()
    return ByteBuffer(bytes: bytes)
  }

  /// A request of a device that waits for its answer before it asks again: so it always has the same id.
  static func request(_ verb: String, path: String, body: String) throws(BenchmarkFailure) -> RequestTemplate {
    var message = Textsecure_WebSocketMessage()
    message.type = request
    message.request.verb = verb
    message.request.path = path
    message.request.body = Data(body.utf8)
    message.request.id = 1
    message.request.headers = ["content-type:application/json"]
    do {
      return RequestTemplate(try message.serializedBytes())
    } catch {
      throw BenchmarkFailure("a request could not be written: \(error)")
    }
  }
}
