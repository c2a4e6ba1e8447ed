import NIOCore
import RelayCore
import RelayHTTP
import SwiftProtobuf
import WireMessages

@testable import Relay
@testable import RelayClient

/// Protobuf messages of sockets and of deliveries, as the relay and its client library read them.
func fuzzProtobuf(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  switch selector % 4 {
  case 0: fuzzSocketMessage(body)
  case 1: comesBack(Textsecure_PushSignal.self, body)
  case 2: comesBack(Textsecure_ProvisioningUuid.self, body)
  default: _ = LiveDialect.json.read(.text(body.text))
  }
}

private func fuzzSocketMessage(_ body: [UInt8]) {
  comesBack(Textsecure_WebSocketMessage.self, body)
  let dialect = ProtobufDialect()
  switch dialect.read(.binary(ByteBuffer(bytes: body))) {
  case .call(let call):
    demand((call.body?.readableBytes ?? 0) <= body.count, "a body is no longer than its message")
    _ = call.isKeepAlive
    if let id = call.id {
      let answer = try? dialect.answer(SocketAnswer(status: 200, message: call.verb, headers: call.headers), to: id)
      guard case .binary(let frame)? = answer else { return demand(false, "every request can be answered") }
      guard case .answer(let read, _) = LiveDialect.protobuf.read(.binary(Array(frame.readableBytesView))) else {
        return demand(false, "the client reads the answer")
      }
      demand(read == id, "the answer has the request's id")
    }
  case .acknowledgement, .refusal, .ping, .nothing, .malformed: break
  }
  _ = LiveDialect.protobuf.read(.binary(body))
}

private func comesBack<Wire: Message & Equatable>(_ type: Wire.Type, _ body: [UInt8]) {
  guard let message = try? Wire(serializedBytes: body), let written: [UInt8] = try? message.serializedBytes() else {
    return
  }
  demand((try? Wire(serializedBytes: written)) == message, "a message comes back")
}
