import Foundation
import SwiftProtobuf
import Synchronization
import WireMessages

/// Defects of WebSockets, each of which one rule must notice.
enum SocketDefects {
  typealias Frame = DefectiveServer.Frame

  static let seeded: [ConformanceTests.Seeded] = [
    seeded("keep-alives without an id are answered", breaking: "one without not at all") { frame in
      guard frame.isForRelay, let request = message(in: frame)?.request, !request.hasID, request.path == "/v1/keepalive"
      else { return [frame] }
      var answer = Textsecure_WebSocketMessage()
      answer.type = 2
      (answer.response.id, answer.response.status, answer.response.message) = (0, 200, "OK")
      return [Frame(isForRelay: false, kind: .binary, payload: bytes(of: answer))]
    },
    seeded("a refusal acknowledges", breaking: "a message that is refused stays") { frame in
      changing(frame, isForRelay: true) { if $0.hasResponse { $0.response.status = 200 } }
    },
    seeded("acknowledgements get lost", breaking: "an acknowledgement removes the message") { frame in
      frame.isForRelay && message(in: frame)?.hasResponse == true ? [] : [frame]
    },
    seeded("a displaced connection is closed with 1001", breaking: "closes the older one with 1000") { frame in
      closing(frame, with: 1001)
    },
    seeded("a finished channel is closed with 1000", breaking: "an answer to it closes the channel with 1001") {
      frame in
      closing(frame, with: 1000)
    },
    seeded("pongs are empty", breaking: "a ping is answered with a pong of the same content") { frame in
      var frame = frame
      if frame.kind == .pong { frame.payload = [] }
      return [frame]
    },
    seeded("envelopes are changed on the way", breaking: "what waits is delivered on connecting") { frame in
      changing(frame, isForRelay: false) { message in
        if message.request.path == "/api/v1/message", !message.request.body.isEmpty { message.request.body[20] ^= 1 }
      }
    },
    seeded(
      "deliveries in the wrong order", breaking: "in the order of their arrival, those that waited first", swapping()),
    seeded("JSON ids count from 1", breaking: "deliveries count from 0") { frame in
      var frame = frame
      if !frame.isForRelay, frame.kind == .text {
        frame.payload = Array(
          String(decoding: frame.payload, as: UTF8.self).replacing("\"id\":0,", with: "\"id\":1,").utf8)
      }
      return [frame]
    },
  ]

  private static func seeded(
    _ text: String, breaking rule: String, _ defect: @escaping DefectiveServer.SocketDefect
  ) -> ConformanceTests.Seeded {
    ConformanceTests.Seeded(text, rule: rule, defect: defect)
  }

  /// Swaps each two deliveries: the second goes first.
  private static func swapping() -> DefectiveServer.SocketDefect {
    let held = Mutex<Frame?>(nil)
    return { frame in
      guard !frame.isForRelay, message(in: frame)?.request.path == "/api/v1/message" else { return [frame] }
      return held.withLock { held in
        guard let first = held else {
          held = frame
          return []
        }
        held = nil
        return [frame, first]
      }
    }
  }

  private static func closing(_ frame: Frame, with code: UInt16) -> [Frame] {
    var frame = frame
    if !frame.isForRelay, frame.kind == .close, frame.payload.count >= 2 {
      frame.payload.replaceSubrange(..<2, with: [UInt8(code >> 8), UInt8(code & 0xFF)])
    }
    return [frame]
  }

  private static func changing(
    _ frame: Frame, isForRelay: Bool, _ change: (inout Textsecure_WebSocketMessage) -> Void
  ) -> [Frame] {
    guard frame.isForRelay == isForRelay, var message = message(in: frame) else { return [frame] }
    change(&message)
    var frame = frame
    frame.payload = bytes(of: message)
    return [frame]
  }

  private static func message(in frame: Frame) -> Textsecure_WebSocketMessage? {
    guard frame.kind == .binary, frame.isFinal else { return nil }
    // A frame that cannot be read is passed on as it is.
    return try? Textsecure_WebSocketMessage(serializedBytes: frame.payload)
  }

  private static func bytes(of message: Textsecure_WebSocketMessage) -> [UInt8] {
    (try? message.serializedBytes()) ?? []  // Nothing in it is required.
  }
}
