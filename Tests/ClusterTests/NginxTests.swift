import AsyncHTTPClient
import ChildProcesses
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import TestSupport
import TestTags
import Testing

/// `deploy/nginx/relay.conf`, as an operator puts it before a relay.
@Suite(.tags(.processes)) struct NginxTests {
  @Test func `clients get Retry-After, are known by their own address, and say nothing of it themselves`() async throws
  {
    let settings = [
      "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.1", "RELAY_LIMITS_CODE_ADDRESS_SIZE": "2",
      "RELAY_LIMITS_CODE_ADDRESS_PER_MINUTE": "1", "RELAY_LIMITS_SMS_DESTINATION_SIZE": "1000",
    ]
    try await RelayOperator.with(settings: settings) { site in
      let ports = try RelayPorts.free(1)
      let relay = try await site.serve(try #require(ports.first).settings)
      let authority = try TestAuthority()
      try await NginxServer.with(before: ports, authority: authority) { nginx in
        try await Self.withClient(trusting: authority) { client in
          var answers: [(status: Int, retry: String?)] = []
          // A caller that could name its own address would never run into its limit.
          for index in 0..<5 {
            var request = HTTPClientRequest(url: nginx.url + "/v1/accounts/sms/code/+1415555010\(index)")
            request.headers.add(name: "X-Forwarded-For", value: "203.0.113.\(index)")
            let response = try await client.execute(request, timeout: .seconds(20))
            answers.append((Int(response.status.code), response.headers.first(name: "Retry-After")))
          }
          #expect(answers.prefix(2).allSatisfy { (200...204).contains($0.status) }, "\(answers)")
          #expect(answers.dropFirst(2).allSatisfy { $0.status == 413 && $0.retry != nil }, "\(answers)")
        }
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `the file for peers is one that nginx takes`() async throws {
    let file = try String(contentsOf: Self.deploy.appending(path: "nginx/relay-peers.conf"), encoding: .utf8)
    #expect(file.contains("proxy_pass relay_peers;") && !file.contains("ssl"), "TLS of peers ends at the relays")
  }

  static var deploy: URL {
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "deploy")
  }

  private static func withClient(
    trusting authority: TestAuthority, _ body: (HTTPClient) async throws -> Void
  ) async throws {
    var configuration = HTTPClient.Configuration(timeout: .init(connect: .seconds(5)))
    configuration.tlsConfiguration = try TestLeaf.anonymousConfiguration(trusting: authority.certificate)
    try await HTTPClient.withHTTPClient(configuration: configuration) { try await body($0) }
  }
}
