/// The rules of RFC 9112, 3.2 and 9.6, for any server over HTTP/1.1, seen from outside.
package struct ConnectionRules: Sendable {
  private let port: Int
  /// The path at which a GET is answered.
  private let path: String
  private let authority: TestAuthority?

  /// - Parameter authority: speaks TLS, trusting it alone.
  package init(port: Int, path: String, trusting authority: TestAuthority? = nil) {
    (self.port, self.path, self.authority) = (port, path, authority)
  }

  package func expectAll() async throws {
    try await expectCloses()
    try await expectPersistence()
    try await expectHost()
  }

  private static func demand(_ holds: Bool, _ otherwise: String) throws {
    guard holds else { throw TestFailure(otherwise) }
  }

  private func connect() async throws -> RawSocket { try await RawSocket.connect(to: port, trusting: authority) }

  private static func bytes(_ lines: [String]) -> [UInt8] { Array((lines + ["", ""]).joined(separator: "\r\n").utf8) }

  /// A connection that asks for its end, or does not ask that it lasts, ends behind the answer, which says so.
  private func expectCloses() async throws {
    let (line, host) = ("GET \(path) HTTP/1.1", "Host: relay")
    var asks = ["close", "Close", "CLOSE", "close, TE", "TE,Close", "keep-alive, close"].map {
      [line, host, "Connection: \($0)"]
    }
    asks += [
      [line, host, "Connection: TE", "Connection: close"], ["HEAD \(path) HTTP/1.1", host, "Connection: Close"],
      ["GET \(path)/nowhere HTTP/1.1", host, "Connection: Close"],
      ["GET \(path) HTTP/1.0"], ["GET \(path) HTTP/1.0", host, "Connection: TE"],
    ]
    for ask in asks {
      let socket = try await connect()
      try await socket.send(Self.bytes(ask))
      let answer = try await socket.answer(isBare: ask[0].hasPrefix("HEAD"))
      try Self.demand(answer.headers["connection"] == "close", "\(ask): \(answer.headers)")
      // Long before it counts as idle.
      try await socket.ended(within: .seconds(20))
      try Self.demand(socket.unreadBytes == 0, "\(ask): bytes behind the answer")
      await socket.close()
    }
  }

  private func expectPersistence() async throws {
    for (lines, said) in [
      (["GET \(path) HTTP/1.1", "Host: relay"], nil),
      (["GET \(path) HTTP/1.1", "Host: relay", "Connection: TE"], nil),
      (["GET \(path) HTTP/1.0", "Connection: Keep-Alive"], "keep-alive"),
    ] {
      let socket = try await connect()
      for _ in 0..<2 {
        try await socket.send(Self.bytes(lines))
        let answer = try await socket.answer()
        try Self.demand(answer.headers["connection"] == said, "\(lines): \(answer.headers)")
      }
      try Self.demand(!socket.hasEnded, "\(lines): the connection ended")
      await socket.close()
    }
  }

  /// Requests that name no host, two, or what is none, are refused.
  private func expectHost() async throws {
    for hosts in [[], ["relay", "relay"], ["relay", "other"], ["relay/path"], ["user@relay"]] {
      let socket = try await connect()
      try await socket.send(Self.bytes(["GET \(path) HTTP/1.1"] + hosts.map { "Host: \($0)" }))
      let answer = try await socket.answer()
      let isRefused = answer.status == 400 && answer.body.hasPrefix("invalid-host: ")
      try Self.demand(isRefused && answer.headers["connection"] == "close", "\(hosts): \(answer)")
      try await socket.ended(within: .seconds(20))
      await socket.close()
    }
  }
}
