import Federation
import NIOHTTP1
import RelayCore
import ServiceLifecycle
import Storage
import TestSupport
import Testing

/// The listener's beginning and end.
@Suite struct ShutdownTests {
  @Test func aPortThatIsTakenIsExplained() async throws {
    try await withRelay("alpha") { alpha in
      let error = await #expect(throws: FederationError.self) {
        try await alpha.makeListener(alpha.endpoint.port) { _ in }.run()
      }
      #expect(error?.kind == .cannotListen)
      #expect(error?.text.contains("federation.port") == true)
    }
  }

  @Test func shuttingDownFinishesWhatIsUnderWayAndEndsIdleConnections() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let (ports, port) = AsyncStream.makeStream(of: Int.self)
      let listener = alpha.makeListener(0) { port.yield($0) }
      let group = ServiceGroup(configuration: .init(services: [listener], logger: alpha.log.logger))
      let running = Task { try await group.run() }
      let bound = try #require(await ports.first { _ in true })
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: alpha.ownAuthority)
      try await withClient(to: "https://127.0.0.1:\(bound)", configuration) { busy in
        try await withClient(to: "https://127.0.0.1:\(bound)", configuration) { idle in
          #expect(try await idle.get("/v1/federation/user_count").status == 200)
          alpha.intake.hold(true)
          async let answer = busy.send(
            .PUT, "/v1/federation/messages/+14155550177/1/+14155550100", body: #"{"messages":[]}"#)
          try await eventually("the request is under way") { !alpha.intake.calls.isEmpty }
          await group.triggerGracefulShutdown()
          try await eventually("nothing new is accepted") {
            await
              (try? withClient(to: "https://127.0.0.1:\(bound)", configuration) {
                try await $0.get("/v1/federation/user_count")
              }) == nil
          }
          alpha.intake.hold(false)
          #expect(try await answer.status == 200)
          try await running.value
        }
      }
    }
  }
}
