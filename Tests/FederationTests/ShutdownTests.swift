import NIOCore
import NIOHTTP1
import RelayCore
import ServiceLifecycle
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The listener's beginning and end.
@Suite(.tags(.stores)) struct ShutdownTests {
  @Test func `a port that is taken is explained`() async throws {
    try await withRelay("alpha") { alpha in
      let error = await #expect(throws: FederationError.self) {
        try await alpha.makeListener(alpha.endpoint.port) { _ in }.run()
      }
      #expect(error?.kind == .cannotListen)
      #expect(error?.remedy.contains("federation.port") == true)
    }
  }

  @Test func `shutting down finishes what is under way and ends idle connections`() async throws {
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

  @Test func `connections over HTTP/1.1 end when they are told to`() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let leaf = try authority.leaf(relay: "beta")
      for (fields, status) in [
        ("Host: relay\r\nConnection: Close", 200), ("Host: relay\r\nConnection: close, TE", 200), ("A: b", 400),
        ("Host: a\r\nHost: b", 400),
      ] {
        let connection = try await OpenConnection.open(to: alpha, as: leaf)
        try await connection.send(text: "GET /v1/federation/user_count HTTP/1.1\r\n\(fields)\r\n\r\n")
        try await eventually("the relay ends the connection", within: .seconds(20)) { !connection.isOpen }
        #expect(connection.text.hasPrefix("HTTP/1.1 \(status) "), "\(fields): \(connection.text)")
        #expect(connection.text.lowercased().contains("\r\nconnection: close\r\n"))
        try await connection.close()
      }
    }
  }

  @Test func `shutting down under fire loses no answer that began and ends`() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let (ports, port) = AsyncStream.makeStream(of: Int.self)
      let listener = alpha.makeListener(0) { port.yield($0) }
      let group = ServiceGroup(configuration: .init(services: [listener], logger: alpha.log.logger))
      let running = Task { try await group.run() }
      let base = "https://127.0.0.1:\(try #require(await ports.first { _ in true }))"
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: alpha.ownAuthority)
      await withTaskGroup(of: Void.self) { clients in
        for index in 0..<16 {
          clients.addTask {
            // Connections come and go, in both versions, until nothing is accepted any more.
            while (try? await withClient(
              to: base, configuration, http1Only: index.isMultiple(of: 2), patience: .seconds(5),
              { try await $0.get("/v1/federation/user_count") })) != nil
            {}
          }
        }
        clients.addTask {
          try? await Task.sleep(for: .milliseconds(200))  // Not cancelled by anyone.
          await group.triggerGracefulShutdown()
        }
      }
      try await running.value
      #expect(alpha.log.all.allSatisfy { !$0.hasPrefix("error") })
    }
  }

  @Test func `connections that hang up are forgotten`() async throws {
    try await withRelay("alpha") { alpha in
      for _ in 0..<20 { _ = try await CertificateProbe.presentedChain(by: .own(alpha.endpoint), timeout: .seconds(30)) }
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: alpha.ownAuthority)
      for http1Only in [true, false] {
        await withTaskGroup(of: Void.self) { group in
          for _ in 0..<20 {
            group.addTask {
              let request = Task {
                try await withClient(to: alpha.endpoint.text, configuration, http1Only: http1Only) {
                  try await $0.get("/v1/federation/user_count")
                }
              }
              try? await Task.sleep(for: .milliseconds(Int.random(in: 0...40)))  // Not cancelled by anyone.
              request.cancel()
              _ = await request.result
            }
          }
        }
      }
      let answer = try await withClient(to: alpha.endpoint.text, configuration) {
        try await $0.get("/v1/federation/user_count")
      }
      #expect(answer.status == 200)
    }
  }
}
