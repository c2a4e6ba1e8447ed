import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// Receipts and attachments, as a peer of any make would ask for them (reference 1.13.2, 1.13.6).
@Suite(.tags(.stores)) struct ReceiptRouteTests {
  @Test func `receipts arrive under the name that the certificate proved`() async throws {
    try await withPeerClient { relay, client in
      let path = "/v1/receipt/+14155550177/3/+14155550100/1700000000001"
      let answer = try await client.send(.PUT, path)
      #expect(answer.status == 200)
      #expect(answer.body.readableBytes == 0)
      // Historic peers escape the plus sign, end in a slash, or send an empty body as JSON.
      let escaped = path.replacingOccurrences(of: "+", with: "%2B") + "/"
      #expect(try await client.send(.PUT, escaped, body: "").status == 200)
      let source = DeviceAddress(try number("+14155550177"), try #require(DeviceID(3)))
      let receipt = RecordingIntake.Receipt(
        timestamp: Timestamp(millis: 1_700_000_000_001), destination: try number("+14155550100"),
        origin: .peer(try name("beta"), source: source))
      #expect(relay.intake.receipts == [receipt, receipt])
    }
  }

  @Test func `a peer may not send receipts of our accounts`() async throws {
    try await withPeerClient { relay, client in
      let answer = try await client.send(.PUT, "/v1/receipt/+14155550111/1/+14155550100/1")
      #expect(answer.status == 403)
      #expect(answer.text.hasPrefix("source-refused"))
      #expect(relay.intake.receipts.isEmpty)
    }
  }

  @Test func `paths that name nothing are not found`() async throws {
    try await withPeerClient { relay, client in
      for bad in [
        "+1/1/+14155550100/1", "+14155550177/0/+14155550100/1", "+14155550177/x/+14155550100/1", "+14155550177/1/x/1",
        "+14155550177/1/+14155550100/x", "+14155550177/1/+14155550100/9223372036854775808",
        "+14155550177/1/+14155550100/%00", "+14155550100/1",
      ] {
        let status = try await client.send(.PUT, "/v1/receipt/\(bad)").status
        #expect(status == 404, "\(bad)")
      }
      #expect(try await client.get("/v1/receipt/+14155550177/1/+14155550100/1").status == 405)
      #expect(relay.intake.receipts.isEmpty)
    }
  }

  @Test func `refusals of the intake reach the peer`() async throws {
    try await withPeerClient { relay, client in
      let path = "/v1/receipt/+14155550177/1/+14155550100/1"
      relay.intake.refuse(with: Problem(.notFound))
      #expect(try await client.send(.PUT, path).status == 404)
      relay.intake.refuse(with: Problem(.unavailable, retryAfter: .seconds(1)))
      let answer = try await client.send(.PUT, path)
      #expect(answer.status == 503)
      #expect(answer.headers.first(name: "Retry-After") == "1")
    }
  }

  @Test func `attachments are located in the form that peers know`() async throws {
    try await withPeerClient { relay, client in
      let answer = try await client.get("/v1/federation/attachment/9223372036854775807/")
      #expect(answer.status == 200)
      #expect(answer.text == #"{"location":"https://blobs.example/7?signature=a%2Fb&x=1"}"#)
      #expect(answer.headers.first(name: "Content-Type") == "application/json")
      for bad in ["x", "0", "-1", "9223372036854775808", "1.0", "%31x"] {
        #expect(try await client.get("/v1/federation/attachment/\(bad)").status == 404, "\(bad)")
      }
      #expect(try await client.send(.PUT, "/v1/federation/attachment/7").status == 405)
      relay.locator.answer(with: .failure(Problem(.unavailable, retryAfter: .seconds(1))))
      #expect(try await client.get("/v1/federation/attachment/7").status == 503)
      relay.locator.answer(with: .success("file:///etc/passwd"))
      #expect(try await client.get("/v1/federation/attachment/7").status == 500)
    }
  }
}
