import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The older forms in which relays hand messages over (reference 1.13.2), byte for byte.
@Suite(.tags(.stores)) struct LegacyRouteTests {
  private let path = "/v1/federation/message"

  @Test func `the first generation's message arrives for device one`() async throws {
    try await withPeerClient { relay, client in
      for text in [Base64.encode(Self.signal, padded: false), Base64.encode(Self.signal, padded: true)] {
        let answer = try await client.send(.PUT, path, body: body(text))
        #expect(answer.status == 204)
        #expect(answer.body.readableBytes == 0)
      }
      let call = try #require(relay.intake.calls.first)
      #expect(relay.intake.calls == [call, call])
      // The relay is the one that the certificate proved, whatever the signal says.
      let source = DeviceAddress(try number("+14155550177"), .master)
      #expect(call.origin == .peer(try name("beta"), source: source))
      #expect(
        call.submission
          == Submission(
            destination: try number("+14155550100"),
            messages: [
              SubmittedMessage(type: .preKeyBundle, device: .master, registrationID: 0, body: [1, 2, 3], content: nil)
            ],
            timestamp: Timestamp(millis: 1_700_000_000_001), coverage: .masterDevice))
    }
  }

  @Test func `a source device and content are taken up`() async throws {
    try await withPeerClient { relay, client in
      let signal = Self.signal + [0x38, 3] + [0x42, 2, 7, 8]
      #expect(try await client.send(.PUT, path, body: body(Base64.encode(signal, padded: false))).status == 204)
      let call = try #require(relay.intake.calls.first)
      #expect(call.origin.source.device == DeviceID(3))
      #expect(call.submission.messages.first?.content == [7, 8])
    }
  }

  @Test func `a body that is no signal is answered with 400`() async throws {
    try await withPeerClient { relay, client in
      let source = [0x12, 12] + Array("+14155550177".utf8)
      let signals: [[UInt8]] = [
        [1],  // a field without a value
        [0x08, 1],  // no source
        [0x12, 3] + Array("+12".utf8),
        source + [0x08, 5],  // a receipt, which only servers make
        source + [0x08, 64],
        source + [0x38, 0],  // no device
        source + [0x28] + [UInt8](repeating: 0xFF, count: 9) + [1],  // a time beyond all
      ]
      for signal in signals {
        let answer = try await client.send(.PUT, path, body: body(Base64.encode(signal, padded: false)))
        #expect(answer.status == 400 && answer.text.hasPrefix("undecodable-message"), "\(signal)")
      }
      #expect(try await client.send(.PUT, path, body: body("*")).status == 400)
      #expect(relay.intake.calls.isEmpty)
    }
  }

  @Test func `other requests are refused as elsewhere`() async throws {
    try await withPeerClient { relay, client in
      let signal = Base64.encode(Self.signal, padded: false)
      for bad in ["", "{", "[]", "{}", #"{"destination":"+14155550100"}"#, #"{"outgoingMessageSignal":"CAE"}"#] {
        #expect(try await client.send(.PUT, path, body: bad).status == 415, "\(bad)")
      }
      #expect(try await client.send(.PUT, path, body: body(signal, to: "nobody")).status == 404)
      let wrongMethod = try await client.get(path)
      #expect(wrongMethod.status == 405)
      let large = Self.signal + [0x42, 0x80, 0x80, 0x04] + [UInt8](repeating: 1, count: 65_536)
      #expect(try await client.send(.PUT, path, body: body(Base64.encode(large, padded: true))).status == 413)
      let ours = [0x12, 12] + Array("+14155550111".utf8) + [0x08, 1]
      #expect(try await client.send(.PUT, path, body: body(Base64.encode(ours, padded: true))).status == 403)
      #expect(relay.intake.calls.isEmpty)
      relay.intake.refuse(with: Problem(.notFound))
      #expect(try await client.send(.PUT, path, body: body(signal)).status == 404)
      // These relays know of no devices.
      relay.intake.refuse(with: .mismatched(missing: [], extra: [.master]))
      #expect(try await client.send(.PUT, path, body: body(signal)).status == 404)
      relay.intake.refuse(with: Problem(.unavailable, retryAfter: .seconds(1)))
      #expect(try await client.send(.PUT, path, body: body(signal)).status == 503)
    }
    try await withPeerClient(scopes: [.keys, .directory]) { _, client in
      let refused = try await client.send(.PUT, path, body: "{}")
      #expect(refused.status == 403 && refused.text.hasPrefix("scope-refused"))
    }
  }

  @Test func `a bundle without a source device comes from device one`() async throws {
    try await withPeerClient { relay, client in
      let bundle = #"{"relay":"else","messages":[{"type":1,"destinationDeviceId":2,"body":"AQI","timestamp":5}]}"#
      let path = "/v1/federation/messages/+14155550177/+14155550100"
      for form in [path, path + "/", path.replacingOccurrences(of: "+", with: "%2B")] {
        let answer = try await client.send(.PUT, form, body: bundle)
        #expect(answer.status == 200 && answer.body.readableBytes == 0)
      }
      let call = try #require(relay.intake.calls.first)
      #expect(relay.intake.calls == [call, call, call])
      #expect(call.origin == .peer(try name("beta"), source: DeviceAddress(try number("+14155550177"), .master)))
      #expect(call.submission.coverage == .activeDevices)
      #expect(call.submission.timestamp == Timestamp(millis: 5))
      for bad in ["+1/+14155550100", "+14155550177/x", "+14155550177/1", "+14155550177"] {
        #expect(try await client.send(.PUT, "/v1/federation/messages/\(bad)", body: bundle).status == 404, "\(bad)")
      }
      #expect(try await client.get(path).status == 405)
      relay.intake.refuse(with: .stale([.master]))
      let stale = try await client.send(.PUT, path, body: bundle)
      #expect(stale.status == 410 && stale.text == #"{"staleDevices":[1]}"#)
    }
  }

  /// Type 3, source +14155550177, relay "else", time 1,700,000,000,001, message 1 2 3.
  private static let signal: [UInt8] =
    [0x08, 3, 0x12, 12] + Array("+14155550177".utf8) + [0x1A, 4] + Array("else".utf8)
    + [0x28, 0x81, 0xD0, 0x95, 0xFF, 0xBC, 0x31] + [0x32, 3, 1, 2, 3]

  private func body(_ signal: String, to destination: String = "+14155550100") -> String {
    #"{"destination":"\#(destination)","outgoingMessageSignal":"\#(signal)"}"#
  }
}
