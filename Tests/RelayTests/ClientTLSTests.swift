import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// Clients over TLS.
@Suite(.tags(.processes)) struct ClientTLSTests {
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

  @Test func `a certificate that has ended is told by the log, a metric and relay check, and served all the same`()
    async throws
  {
    try await RelayOperator.with { site in
      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      let authority = try TestAuthority()
      let settings = ["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key]
      try authority.leaf(relay: nil).write(chain: chain, key: key)
      #expect(try await site.run(["check"], overrides: settings).exit == .code(0))

      let day = 86_400.0
      try authority.leaf(
        relay: nil, from: Date(timeIntervalSinceNow: -3 * day), until: Date(timeIntervalSinceNow: -day)
      )
      .write(chain: chain, key: key)
      let check = try await site.run(["check"], overrides: settings)
      #expect(check.exit == .code(78))
      #expect(check.errors.contains("client.tls.certificate: \(chain) ended "), "\(check.errors)")
      let relay = try await site.serve(settings)
      try await eventually("the log tells") { relay.log().contains("a certificate has ended: clients refuse it") }
      let metrics = try await relay.ask("/metrics").text
      let line = metrics.split(separator: "\n").first {
        $0.hasPrefix("relay_certificate_expires_seconds{") && $0.contains("kind=\"client\"")
      }
      let left = line?.split(separator: " ").last.flatMap { Double($0) }
      #expect(left.map { $0 < -80_000 } == true, "\(line ?? "no metric")")

      try authority.leaf(relay: nil).write(chain: chain, key: key)
      try await eventually("the new one is taken up", within: .seconds(20)) {
        try await isServed(relay, trusting: authority)
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `over TLS 1.2 nothing is agreed on that lacks forward secrecy`() async throws {
    try await RelayOperator.with { site in
      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      // Without forward secrecy there is RSA alone.
      let certificate = try await Self.openssl(
        [
          "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key,
          "-out", chain,
        ],
        in: site.folder)
      #expect(certificate.exit == .code(0), "\(certificate.text)")
      let relay = try await site.serve(["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key])
      for (suite, isAgreed) in [
        ("AES128-GCM-SHA256", false), ("AES256-SHA", false), ("ECDHE-RSA-AES128-GCM-SHA256", true),
        ("ECDHE-RSA-AES128-SHA", true),
      ] {
        let handshake = try await Self.openssl(
          ["s_client", "-connect", "127.0.0.1:\(relay.clientPort)", "-tls1_2", "-cipher", "\(suite):@SECLEVEL=0"],
          in: site.folder)
        #expect(handshake.text.contains("Cipher    : \(suite)") == isAgreed, "\(suite): \(handshake.text)")
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  private static func openssl(
    _ arguments: [String], in folder: String
  ) async throws -> (exit: ChildProcess.Exit, text: String) {
    let output = "\(folder)/openssl-\(UUID().uuidString).txt"
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: ["/usr/bin/env", "openssl"] + arguments, environment: ProcessInfo.processInfo.environment,
        folder: folder,
        standardOutput: output, standardError: output))
    let exit = await child.killed(after: .seconds(30))
    return (exit, String(decoding: try Data(contentsOf: URL(filePath: output)), as: UTF8.self))
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
