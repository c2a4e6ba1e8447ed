// The languages of a device's WebSocket (reference 1.12.3, 1.12.4, 2.9): frames to values and back.

import Foundation
import RelayCore
import SwiftProtobuf
import WireMessages

/// The language of a device's WebSocket (reference 1.12).
public enum LiveDialect: Sendable, Hashable {
  /// Protobuf in binary frames, since 2014 (reference 1.12.4). It carries requests, too. The parameter `login` asks
  /// for it.
  case protobuf
  /// JSON in text frames, as of the first WebSockets (reference 1.12.3): deliveries and acknowledgements alone. The
  /// parameter `user` asks for it.
  case json
}

/// The meaning of a frame of the relay's.
package enum LiveFrame: Sendable, Equatable {
  case delivery(SealedDelivery)
  case request(id: UInt64?, verb: String, path: String, body: [UInt8])
  case answer(id: UInt64, LiveAnswer)
  /// For nobody: it is ignored.
  case nothing
  case malformed
}

/// A delivery as it came.
package struct SealedDelivery: Sendable, Equatable {
  /// Names it on its connection alone.
  package let id: UInt64
  package let envelope: [UInt8]
}

/// A relay's answer to ``LiveSession/request(_:_:body:contentType:)``.
public struct LiveAnswer: Sendable, Hashable {
  /// The HTTP status, of any kind.
  public let status: Int
  /// The header fields: names in lower case, and the last of several fields with one name. Empty from relays that
  /// send none (reference 2.9).
  public let headers: [String: String]
  /// The whole body; empty when there is none.
  public let body: [UInt8]
}

extension LiveDialect {
  package func read(_ message: ClientSocket.Message) -> LiveFrame {
    switch (self, message) {
    case (.protobuf, .binary(let bytes)): Self.protobuf(bytes)
    case (.json, .text(let text)): Self.json(text)
    default: .nothing
    }
  }

  package func acknowledgement(of id: UInt64) -> ClientSocket.Message {
    switch self {
    case .protobuf: Self.answer(id: id, status: 200)
    case .json: .text(#"{"type":1,"id":\#(id)}"#)
    }
  }

  // MARK: Protobuf

  private static let (request, response): (UInt32, UInt32) = (1, 2)

  private static func protobuf(_ bytes: [UInt8]) -> LiveFrame {
    let message: Textsecure_WebSocketMessage
    do {
      message = try Textsecure_WebSocketMessage(serializedBytes: bytes)
    } catch {
      return .malformed
    }
    switch message.type {
    case request where message.hasRequest:
      let request = message.request
      let id = request.hasID ? request.id : nil
      guard request.verb == "PUT", request.path == "/api/v1/message" else {
        return .request(id: id, verb: request.verb, path: request.path, body: Array(request.body))
      }
      return .delivery(SealedDelivery(id: id ?? 0, envelope: Array(request.body)))
    case response where message.hasResponse:
      let response = message.response
      var headers: [String: String] = [:]
      for line in response.headers {
        let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        headers[parts[0].lowercased()] = parts.dropFirst().joined().trimmingCharacters(in: .whitespaces)
      }
      return .answer(
        id: response.id, LiveAnswer(status: Int(response.status), headers: headers, body: Array(response.body)))
    default: return .malformed
    }
  }

  /// An answer to the relay's request `id`.
  package static func answer(id: UInt64, status: Int) -> ClientSocket.Message {
    var message = Textsecure_WebSocketMessage()
    message.type = response
    message.response.id = id
    message.response.status = UInt32(clamping: status)
    message.response.message = status < 300 ? "OK" : ""
    return encoded(message)
  }

  /// A request of this client's. - Parameter id: nil where no answer is wanted.
  package static func request(
    id: UInt64?, verb: String, path: String, body: [UInt8]? = nil, headers: [String] = []
  ) -> ClientSocket.Message {
    var message = Textsecure_WebSocketMessage()
    message.type = request
    message.request.verb = verb
    message.request.path = path
    if let body { message.request.body = Data(body) }
    if let id { message.request.id = id }
    message.request.headers = headers
    return encoded(message)
  }

  private static func encoded(_ message: Textsecure_WebSocketMessage) -> ClientSocket.Message {
    // Nothing in it is required, and nothing is as large as protobuf refuses it.
    .binary((try? message.serializedBytes()) ?? [])
  }

  // MARK: JSON

  private struct JSONFrame: Decodable {
    let id: UInt64?
    let message: String?
    let type: Int?
  }

  private static func json(_ text: String) -> LiveFrame {
    do {
      let frame = try JSONDecoder().decode(JSONFrame.self, from: Data(text.utf8))
      guard let id = frame.id, let message = frame.message else { return .nothing }
      // A text that is no base64 is no envelope either: an error of this delivery.
      return .delivery(SealedDelivery(id: id, envelope: Base64.decode(message) ?? []))
    } catch {
      return .malformed
    }
  }
}
