import Foundation
import TestSupport
import TestTags
import Testing

/// The dialect of the years before protobuf (reference 1.12.3).
@Suite(.tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_CLIENT_WEBSOCKET_LOGIN": "json"]) { $1 }))
struct LiveJSONTests {
  let relay: RelayProcess
  let sender: LiveDevice
  let recipient: LiveDevice

  init() async throws {
    relay = try suiteRelay().relay
    sender = try await relay.registerLive()
    recipient = try await relay.registerLive()
  }

  private func object(_ frame: RawFrame) throws -> [String: Any] {
    #expect(frame.opcode == 1)
    return try #require(try JSONSerialization.jsonObject(with: Data(frame.payload)) as? [String: Any])
  }

  @Test(arguments: ["login", "user"]) func `deliveries count from 0, and are acknowledged by their ids`(
    dialect: String
  ) async throws {
    let socket = try await RawSocket.open(recipient.path(dialect), on: relay.clientPort)
    for time: Int64 in 1...3 { try await relay.sendText(time, from: sender, to: recipient) }
    for id in 0...2 {
      let object = try object(try await socket.frame())
      #expect(object["id"] as? Int == id)
      let text = try #require(object["message"] as? String)
      let sealed = try #require(Data(base64Encoded: text))
      #expect(try LiveSocket.open(Array(sealed), recipient.key).timestamp == Int64(id + 1))
      try await socket.sendText(id == 1 ? #"{"type":"1","id":1}"# : #"{"type":1,"id":\#(id)}"#)
    }
    try await eventually("all is removed") { try await relay.mailbox(of: recipient.device).isEmpty }
    try await socket.sendText(#"{"type":2}"#)
    #expect(try await socket.frame().text == #"{"type":3}"#)
    await socket.close()
  }

  @Test func `wrong credentials are told by a close frame, or at the upgrade for the first clients`() async throws {
    let number = recipient.number.replacing("+", with: "%2B")
    let socket = try await RawSocket.open("/v1/websocket/?login=\(number)&password=wrong", on: relay.clientPort)
    #expect(try await socket.closeCode() == 4001)
    await #expect(throws: TestFailure.self) {
      try await RawSocket.open("/v1/websocket/?user=\(number)&password=wrong", on: relay.clientPort)
    }
  }

  @Test func `an unknown frame closes the connection, and a binary one is ignored`() async throws {
    for text in ["nonsense", #"{"type":9}"#] {
      let socket = try await RawSocket.open(recipient.path(), on: relay.clientPort)
      try await socket.sendBinary([1, 2, 3])
      try await socket.sendText(text)
      #expect(try await socket.closeCode() == 1008)
    }
  }
}
