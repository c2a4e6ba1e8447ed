import Foundation
import SwiftProtobuf
import TestSupport
import TestTags
import Testing
import WireMessages

/// How a device that is about to be linked hears from one that is (reference 1.14).
///
/// One after the other: one of them takes all places of this machine.
@Suite(.tags(.processes), .ownRelay, .serialized) struct LiveProvisioningTests {
  let relay: RelayProcess

  init() throws { relay = try suiteRelay().relay }

  private func request(_ frame: RawFrame) throws -> Textsecure_WebSocketRequest {
    let message = try Textsecure_WebSocketMessage(serializedBytes: frame.payload)
    #expect(message.type == 1)
    return message.request
  }

  private func open() async throws -> (socket: RawSocket, address: String) {
    let socket = try await RawSocket.open("/v1/websocket/provisioning/", on: relay.clientPort)
    let announced = try request(try await socket.frame())
    #expect(announced.verb == "PUT" && announced.path == "/v1/address" && announced.hasID)
    return (socket, try Textsecure_ProvisioningUuid(serializedBytes: Array(announced.body)).uuid)
  }

  private func respond(_ id: UInt64, on socket: RawSocket) async throws {
    var frame = Textsecure_WebSocketMessage()
    frame.type = 2
    frame.response.id = id
    frame.response.status = 200
    try await socket.sendBinary(try frame.serializedBytes())
  }

  @Test func `a device's message reaches the one at the address, and that is all`() async throws {
    let device = try await relay.register()
    let (socket, address) = try await open()
    #expect(address.utf8.count == 22 && !address.contains("="))
    let body = #"{"body":"\#(Data("sealed".utf8).base64EncodedString())"}"#
    #expect(try await relay.send("PUT", "/v1/provisioning/\(address)", json: body, as: device).status == 200)
    let told = try request(try await socket.frame())
    #expect(told.verb == "PUT" && told.path == "/v1/message" && told.body == Data("sealed".utf8))
    try await respond(told.id, on: socket)
    #expect(try await socket.closeCode() == 1001)
    await socket.close()
    try await eventually("nobody is there any more") {
      try await relay.send("PUT", "/v1/provisioning/\(address)", json: body, as: device).status == 404
    }
  }

  @Test func `a device to be can say that it is still there, and ask for nothing`() async throws {
    let (socket, _) = try await open()
    for (path, status) in [
      ("/v1/keepalive/provisioning", UInt32(200)), ("/v1/keepalive/provisioning/", 200), ("/v1/messages/", 404),
    ] {
      var frame = Textsecure_WebSocketMessage()
      frame.type = 1
      frame.request.verb = "GET"
      frame.request.path = path
      frame.request.id = 5
      try await socket.sendBinary(try frame.serializedBytes())
      let answer = try Textsecure_WebSocketMessage(serializedBytes: try await socket.frame().payload).response
      #expect(answer.id == 5 && answer.status == status)
    }
    await socket.close()
  }

  @Test func `addresses and bodies are checked`() async throws {
    let device = try await relay.register()
    let nobody = "AAAAAAAAAAAAAAAAAAAAAA"
    func status(_ address: String, _ json: String) async throws -> Int {
      try await relay.send("PUT", "/v1/provisioning/\(address)", json: json, as: device).status
    }
    #expect(try await status(nobody, #"{"body":"QUJD"}"#) == 404)
    for address in ["x", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAA%2B%2B"] {
      #expect(try await status(address, #"{"body":"QUJD"}"#) == 400)
    }
    for json in ["{}", #"{"body":""}"#, #"{"body":"?"}"#, #"{"body":7}"#, "x"] {
      #expect(try await status(nobody, json) == 415)
    }
    let large = Data(repeating: 1, count: (16 << 10) + 1).base64EncodedString()
    #expect(try await status(nobody, #"{"body":"\#(large)"}"#) == 413)
    #expect(try await relay.send("PUT", "/v1/provisioning/\(nobody)", json: #"{"body":"QUJD"}"#).status == 401)
  }

  @Test func `a device that was told is not there any more, even while its connection stays`() async throws {
    let device = try await relay.register()
    let (socket, address) = try await open()
    func handOver() async throws -> Int {
      try await relay.send("PUT", "/v1/provisioning/\(address)", json: #"{"body":"QUJD"}"#, as: device).status
    }
    #expect(try await handOver() == 200)
    #expect(try await handOver() == 404)
    #expect(try request(try await socket.frame()).path == "/v1/message")
    await socket.close()
  }

  @Test func `a device that leaves at once leaves no trace`() async throws {
    let farewell = RawSocket.request("/v1/websocket/provisioning/") + RawSocket.frame(8, [0x03, 0xE8])
    for _ in 0..<60 {
      let socket = try await RawSocket.connect(to: relay.clientPort)
      try await socket.send(farewell)
      #expect(try await socket.answer().status == 101)
      try await socket.ended()
      await socket.close()
    }
    try await eventually("there is a place for one more, and none of theirs is counted") {
      let socket = try await RawSocket.connect(to: relay.clientPort)
      try await socket.send(RawSocket.request("/v1/websocket/provisioning/"))
      let status = try await socket.answer().status
      await socket.close()
      let metrics = try await relay.ask("/metrics").text
      return status == 101 && metrics.contains("relay_connections{kind=\"provisioning\"} 0")
    }
  }

  @Test func `one client address cannot take all places`() async throws {
    var sockets: [RawSocket] = []
    var refused = 0
    for _ in 0..<70 {
      let socket = try await RawSocket.connect(to: relay.clientPort)
      try await socket.send(RawSocket.request("/v1/websocket/provisioning/"))
      let status = try await socket.answer().status
      if status == 413 { refused += 1 } else { #expect(status == 101) }
      sockets.append(socket)
    }
    #expect(refused >= 20)
    for socket in sockets { await socket.close() }
    try await eventually("the places are free again") {
      let socket = try await RawSocket.connect(to: relay.clientPort)
      try await socket.send(RawSocket.request("/v1/websocket/provisioning/"))
      let status = try await socket.answer().status
      await socket.close()
      return status == 101
    }
  }
}
