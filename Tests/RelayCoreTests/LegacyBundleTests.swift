import RelayCore
import TestTags
import Testing

/// Messages of the first generation on the wire (reference 1.8).
@Suite(.tags(.unit)) struct LegacyBundleTests {
  @Test func `entries are read with their own destinations and relays, whatever else they hold`() throws {
    let bundle = try decode(
      #"""
      {"messages":[{"type":"1","destination":"+14152222222","body":"Zm9v","timestamp":1393500009.25},
       {"type":0,"destination":"+14153333333","body":"YmFy","relay":"","timestamp":"soon","destinationDeviceId":2},
       {"type":3,"destination":"nobody","body":"Zg","relay":"elsewhere","x":{"y":[]}}],"timestamp":7}
      """#, LegacyBundle.decode)
    #expect(bundle.entries.map(\.destination) == ["+14152222222", "+14153333333", "nobody"])
    #expect(bundle.entries.map(\.relay) == [nil, nil, "elsewhere"])
    #expect(bundle.entries.map(\.message.type) == [.ciphertext, .unknown, .preKeyBundle])
    #expect(bundle.entries.map(\.message.device.value) == [1, 2, 1])
    #expect(bundle.entries.map(\.message.body) == [Array("foo".utf8), Array("bar".utf8), Array("f".utf8)])
  }

  @Test(arguments: [
    "{}", #"{"messages":null}"#, #"{"messages":[{"type":1,"body":"Zg"}]}"#,
    #"{"messages":[{"type":1,"destination":"","body":"Zg"}]}"#, #"{"messages":[{"type":1,"destination":"+1"}]}"#,
    #"{"messages":[{"type":1,"destination":"+1","body":""}]}"#,
    #"{"messages":[{"type":5,"destination":"+1","body":"Zg"}]}"#,
    #"{"messages":[{"type":1,"destination":"+1","body":"!"}]}"#,
    #"{"messages":[{"type":1,"destination":7,"body":"Zg"}]}"#,
  ])
  func `a body that lacks something is refused`(json: String) {
    #expect(throws: JSONError.wrongShape) { try decode(json, LegacyBundle.decode) }
  }

  @Test func `at most 100 entries are read`() throws {
    let entries = { (count: Int) in
      let list = Array(repeating: #"{"type":1,"destination":"+1","body":"Zg"}"#, count: count)
      return #"{"messages":[\#(list.joined(separator: ","))]}"#
    }
    #expect(try decode(entries(100), LegacyBundle.decode).entries.count == 100)
    #expect(throws: JSONError.tooLarge) { try decode(entries(101), LegacyBundle.decode) }
  }

  @Test func `both lists are always written`() {
    let text = { (success: [String], failure: [String]) in
      String(decoding: LegacyBundle.encode(success: success, failure: failure), as: UTF8.self)
    }
    #expect(text([], []) == #"{"success":[],"failure":[]}"#)
    #expect(text(["+1", "+2"], ["\"x"]) == #"{"success":["+1","+2"],"failure":["\"x"]}"#)
  }
}
