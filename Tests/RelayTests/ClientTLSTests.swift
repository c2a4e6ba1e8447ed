import ChildProcesses
import RelayClient
import TestSupport
import Testing

@Suite("Clients over TLS") struct ClientTLSTests {
  @Test func `clients are served over TLS, and changed certificates are taken up without a restart`() async throws {
    try await RelayOperator.with { site in
      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      let first = try TestAuthority("first")
      try first.leaf(relay: nil).write(chain: chain, key: key)
      let relay = try await site.serve(["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key])
      #expect(try await isServed(relay, trusting: first))

      let second = try TestAuthority("second")
      #expect(try await !isServed(relay, trusting: second), "a CA that signed nothing vouches for nothing")
      try second.leaf(relay: nil).write(chain: chain, key: key)
      try await eventually("the new certificate is presented", within: .seconds(20)) {
        try await isServed(relay, trusting: second)
      }
      #expect(try await !isServed(relay, trusting: first))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a key that is not the certificate's is refused at start, naming both`() async throws {
    try await RelayOperator.with { site in
      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      let authority = try TestAuthority()
      try authority.leaf(relay: nil).write(chain: chain, key: site.folder + "/other.key")
      try authority.leaf(relay: nil).write(chain: site.folder + "/other.pem", key: key)
      let result = try await site.run(
        ["serve"], overrides: ["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key])
      #expect(result.exit == .code(1))
      #expect(result.errors.contains("client.tls.certificate") && result.errors.contains("client.tls.key"))
    }
  }

  /// Asks for a code over a connection of its own.
  private func isServed(_ relay: RelayProcess, trusting authority: TestAuthority) async throws -> Bool {
    var options = RelayClient.Options()
    options.trustRootsPEM = try authority.pem
    let client = try RelayClient(url: "https://127.0.0.1:\(relay.clientPort)", options: options)
    guard let number = PhoneNumber(TestDevice.freshNumber()) else { throw TestFailure("no number") }
    do {
      return try await client.requestCode(for: number, by: .development) != nil
    } catch .unreachable, .timedOut {
      return false
    }
  }
}
