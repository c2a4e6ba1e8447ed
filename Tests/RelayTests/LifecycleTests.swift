import ChildProcesses
import Foundation
import Glibc
import RelayClient
import TestSupport
import TestTags
import Testing

/// How a relay starts, stops, and tells its operator about itself.
@Suite(.tags(.processes)) struct LifecycleTests {
  @Test func `the operator's listener tells life, readiness and metrics`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      _ = try await relay.register()
      #expect(try await relay.ask("/livez").status == 200)
      #expect(try await relay.ask("/readyz").text == #"{"ready":true}"#)
      let metrics = try await relay.ask("/metrics")
      #expect(metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
      #expect(metrics.text.contains("/v1/accounts/code/"))
      #expect(metrics.text.contains("http_requests_total{"))
      #expect(try await relay.ask("/v1/keys").status == 404)
      #expect(try await relay.send("GET", "/metrics").status != 200)
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `SIGTERM stops accepting, finishes what has begun, and ends with 0; what was accepted is there`()
    async throws
  {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let sender = try await relay.register()
      let recipient = try await relay.register()

      // 16 requests whose heads the relay has read, and half of their bodies.
      let begun = try (1...16).map { number in
        try HalfRequest(
          put: "/v1/messages/\(recipient.number)", json: bundle(message(), timestamp: Int64(number)), as: sender,
          port: relay.clientPort)
      }
      defer { for request in begun { request.close() } }
      try await eventually("the relay has read the halves") { try HalfRequest.allRead(by: relay.clientPort, begun) }

      // And others that send one after the other, until they cannot.
      let accepted = Ledger<Int64>()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for lane in 1...8 {
          group.addTask {
            for count in 1... {
              let time = Int64(lane * 1_000_000 + count)
              let answer = try? await relay.send(
                "PUT", "/v1/messages/\(recipient.number)", json: bundle(message(), timestamp: time), as: sender)
              guard let answer else { return }  // The relay is gone.
              #expect(answer.status == 200, "\(answer.text)")
              accepted.add(time)
            }
          }
        }
        try await eventually("the load has begun") { accepted.count > 50 }
        relay.child.send(SIGTERM)
        try await eventually("the relay stops accepting") { try Self.refusesConnections(relay.clientPort) }
        #expect(relay.child.exit == nil, "what has begun is not finished yet")
        for request in begun {
          let status = try await request.finish()
          #expect(status == 200)
        }
        try await group.waitForAll()
      }
      #expect(await relay.exit() == .code(0), "\(relay.log().suffix(1000))")

      let again = try await site.serve()
      let client = try RelayClient(
        url: again.url,
        credentials: Credentials(
          Correspondent(try #require(PhoneNumber(recipient.number))), password: recipient.password))
      let fetched = try await client.drain()
      #expect(Set(fetched).count == fetched.count, "nothing twice")
      #expect(Set(fetched).isSuperset(of: accepted.all + (1...16)))
      #expect(await again.terminate() == .code(0))
    }
  }

  @Test func `a second relay on the same embedded stores is refused and says why`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let second = try await site.startServing()
      let exit = await second.exit()
      #expect(exit == .code(1))
      #expect(second.log().contains("already serves this database"), "\(second.log())")
      #expect(try await relay.send("GET", "/v1/keys").status == 401)
      await relay.kill9()
      // The lock went with the process.
      let third = try await site.serve()
      #expect(await third.terminate() == .code(0))
    }
  }

  @Test(arguments: ["RELAY_CLIENT_PORT", "RELAY_OPERATOR_PORT"])
  func `a port that is taken is named`(variable: String) async throws {
    let (descriptor, port) = try Loopback.listen()
    defer { close(descriptor) }
    try await RelayOperator.with { site in
      let relay = try await site.startServing([variable: "\(port)"])
      #expect(await relay.exit() == .code(1))
      let key = variable == "RELAY_CLIENT_PORT" ? "client.port" : "operator.port"
      #expect(relay.log().contains(key) && relay.log().contains("\(port)"), "\(relay.log())")
      #expect(relay.log().contains("in use"), "\(relay.log())")
    }
  }

  @Test func `kill -9 loses nothing that was answered`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let (sender, recipient) = (try await relay.register(), try await relay.register())
      try await relay.upload([1, 2], as: recipient)
      let sent = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: bundle(message()), as: sender)
      #expect(sent.status == 200)
      #expect(try await relay.send("GET", "/v1/keys/\(recipient.number)/1", as: sender).list("keys").count == 1)
      await relay.kill9()
      let again = try await site.serve()
      #expect(try await again.mailbox(of: recipient).count == 1)
      #expect(try await again.send("GET", "/v1/keys", as: recipient).text == #"{"count":1}"#)
      #expect(await again.terminate() == .code(0))
    }
  }

  private static func refusesConnections(_ port: Int) throws -> Bool {
    guard let descriptor = try? Loopback.connect(to: port, patience: 1) else { return true }
    close(descriptor)
    return false
  }
}

extension RelayClient {
  /// Fetches and acknowledges until the mailbox is empty. - Returns: the times of all messages that came.
  func drain() async throws -> [Int64] {
    var times: [Int64] = []
    while true {
      let page = try await fetchMessages()
      for message in page.messages {
        times.append(message.timestamp)
        try await acknowledge(message)
      }
      if page.messages.isEmpty { return times }
    }
  }
}
