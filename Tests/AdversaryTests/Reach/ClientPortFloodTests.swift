// Connections to the clients' port that never finish a request: they must not keep clients out.

import TestSupport
import TestTags
import Testing

@Suite(.tags(.time)) struct ClientPortFloodTests {
  /// A quarter of 50 connections.
  private static let settings = ["RELAY_CLIENT_CONNECTIONS_MAX": "50"]
  private static let share = 12.0
  private static let halfHead = "GET /v1/keys HTTP/1.1\r\nHost: relay\r\nX-Slow: "

  private static func connections(_ victim: Victim, _ state: String) async throws -> Double {
    try await victim.metric("relay_client_connections{", "state=\"\(state)\"")
  }

  @Test func `an address that trickles heads holds its share, and keeps nobody out`() async throws {
    try await Victim.with(.embedded, settings: Victim.unlimited.merging(Self.settings) { $1 }) { victim in
      let flood = Flood(port: victim.relay.clientPort)
      for _ in 0..<60 { try await flood.connect(from: "127.0.0.9", saying: Self.halfHead) }
      // Before the heads' time has passed, from another address and from the same one.
      #expect(try await victim.relay.send("GET", "/v1/keys").status == 401)
      try await eventually("the newest are held") { flood.heldCount <= 12 }
      #expect(try await Self.connections(victim, "waiting") <= Self.share)
      #expect(try await victim.metric("relay_client_connections_refused_total", "displaced") >= 48)
      let neighbour = try await RawSocket.connect(to: victim.relay.clientPort, from: "127.0.0.9")
      try await neighbour.send(Array("GET /v1/keys HTTP/1.1\r\nHost: relay\r\n\r\n".utf8))
      #expect(try await neighbour.answer().status == 401)
      await neighbour.close()
      await flood.end()
      try await eventually("all is given back") { try await Self.connections(victim, "waiting") == 0 }
    }
  }

  @Test func `an address that idles after requests holds its share, and then is refused`() async throws {
    try await Victim.with(.embedded, settings: Victim.unlimited.merging(Self.settings) { $1 }) { victim in
      var idle: [RawSocket] = []
      for _ in 0..<12 {
        let socket = try await RawSocket.connect(to: victim.relay.clientPort, from: "127.0.0.9")
        try await socket.send(Array("GET /v1/keys HTTP/1.1\r\nHost: relay\r\n\r\n".utf8))
        #expect(try await socket.answer().status == 401)
        idle.append(socket)
      }
      let further = try await RawSocket.connect(to: victim.relay.clientPort, from: "127.0.0.9")
      try await further.ended()
      #expect(try await victim.metric("relay_client_connections_refused_total", "share") == 1)
      #expect(try await victim.relay.send("GET", "/v1/keys").status == 401)
      #expect(try await Self.connections(victim, "serving") >= Self.share)
      for socket in idle { await socket.close() }
    }
  }

  @Test func `a proxy is not bounded, and WebSockets take no share`() async throws {
    let settings = Self.settings.merging(["RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.9"]) { $1 }
    try await Victim.with(.embedded, settings: Victim.unlimited.merging(settings) { $1 }) { victim in
      let proxied = Flood(port: victim.relay.clientPort)
      for _ in 0..<20 { try await proxied.connect(from: "127.0.0.9", saying: Self.halfHead) }
      try await eventually("all are held") { try await Self.connections(victim, "waiting") == 20 }
      #expect(proxied.heldCount == 20)
      await proxied.end()
      var sockets: [RawSocket] = []
      for _ in 0..<20 {
        sockets.append(
          try await RawSocket.open("/v1/websocket/provisioning/", on: victim.relay.clientPort, from: "127.0.0.8"))
      }
      #expect(try await victim.metric("relay_client_connections_refused_total") == 0)
      try await eventually("none is counted twice") {
        // But for the client's that asks here.
        try await Self.connections(victim, "waiting") == 0
      }
      for socket in sockets { await socket.close() }
    }
  }
}
