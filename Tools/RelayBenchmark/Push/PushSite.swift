import ChildProcesses
import Crypto
import Foundation
import Glibc
import NIOCore
import RelayCore

/// The ground of the push figures: keys, stand-ins for the providers, and relays over embedded stores in front of them.
struct PushSite: Sendable {
  private let workshop: Workshop
  private let folder: URL
  private let relay: String
  private static let path = ["PATH": "/usr/local/bin:/usr/bin:/bin"]

  /// - Parameter relay: the executable.
  init(in workshop: Workshop, relay: String) async throws {
    self.workshop = workshop
    self.relay = relay
    folder = try workshop.makeFolder("push")
    for name in ["apns.p8", "vapid.pem"] {
      try P256.Signing.PrivateKey().pemRepresentation.write(to: file(name), atomically: true, encoding: .utf8)
    }
    _ = try await workshop.run(
      "openssl req",
      [
        "/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-keyout", file("key.pem").path, "-out", file("chain.pem").path, "-days", "1", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
      ], environment: Self.path)
    let key = try await workshop.run(
      "openssl genpkey",
      ["/usr/bin/env", "openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
      environment: Self.path)
    let account = [
      "type": "service_account", "project_id": "bench", "private_key_id": "key", "private_key": key,
      "client_email": "bench@example.org", "token_uri": "https://localhost/token",
    ]
    try JSONSerialization.data(withJSONObject: account).write(to: file("service-account.json"))
  }

  private func file(_ name: String) -> URL { folder.appending(path: name) }

  /// Providers in one process.
  struct Providers: Sendable {
    let apns: Int
    let https: Int
    let control: Int

    /// Pushes that were taken so far.
    func taken() async throws -> Int {
      let answer = try await Probe.get("/", port: control)
      guard let count = Int(String(buffer: answer.body)) else { throw BenchmarkFailure("a stand-in cannot count") }
      return count
    }
  }

  /// - Parameter pause: how late each push is answered.
  func providers(_ name: String, pause: Duration = .zero) async throws -> Providers {
    let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let ports = try await FreePorts.find(3)
    let millis = Int64(pause / .milliseconds(1))
    let process = try await workshop.serve(
      name,
      [
        own, "push-stand-in", "--certificate", file("chain.pem").path, "--key", file("key.pem").path, "--apns",
        "\(ports[0])", "--https", "\(ports[1])", "--control", "\(ports[2])", "--pause-millis", "\(millis)",
      ], environment: Self.path)
    let providers = Providers(apns: ports[0], https: ports[1], control: ports[2])
    try await waitUntil(name, while: process) { _ = try await providers.taken() }
    return providers
  }

  /// A relay whose gateway serves.
  struct Gateway: Sendable {
    let process: ChildProcess
    let port: Int
    let operatorPort: Int

    /// The gauge of that name and those labels, as the operator's listener shows it; nil for none.
    func gauge(_ series: String) async throws -> Double? {
      let answer = try await Probe.get("/metrics", port: operatorPort)
      let line = String(buffer: answer.body).split(separator: "\n").first { $0.hasPrefix(series + " ") }
      return line?.split(separator: " ").last.flatMap { Double($0) }
    }

    /// CPU time of the relay, and what to compare it with.
    @Sendable func readUsage() throws -> ServerUsage {
      ServerUsage(
        cpuSeconds: [.alpha: try ProcessUsage.cpuSecondsOfProcess(process.pid)],
        ownSeconds: try ProcessUsage.cpuSecondsOfProcess(getpid()),
        machineSeconds: try ProcessUsage.cpuSecondsOfMachine())
    }
  }

  /// - Parameter apns: where Apple is, if elsewhere than the others.
  func gateway(_ name: String, providers: Providers, apns: Providers? = nil) async throws -> Gateway {
    let configuration = file("\(name).yaml")
    try yaml(providers, apns: apns ?? providers).write(to: configuration, atomically: true, encoding: .utf8)
    let ports = try await FreePorts.find(3)
    let home = try workshop.makeFolder(name)
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    environment.merge(
      [
        "RELAY_CONFIG": configuration.path, "RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])",
        "RELAY_PUSH_GATEWAY_PORT": "\(ports[2])", "RELAY_STORAGE_URL": "sqlite:\(home.path)/relay.sqlite",
        "RELAY_ATTACHMENTS_URL": "file:\(home.path)/attachments",
        "RELAY_DIRECTORY_SNAPSHOT": "\(home.path)/directory.snapshot", "RELAY_DRAIN_SECONDS": "0",
        // A line for each push that fails is not what is measured.
        "RELAY_LOG_LEVEL": "warning",
      ]
    ) { $1 }
    let process = try await workshop.serve(name, [relay, "serve"], environment: environment)
    try await waitUntil("\(name): relay serve", while: process) {
      let answer = try await Probe.get("/readyz", port: ports[1])
      guard answer.status == 200 else { throw BenchmarkFailure("not ready: \(String(buffer: answer.body))") }
    }
    return Gateway(process: process, port: ports[2], operatorPort: ports[1])
  }

  private func yaml(_ providers: Providers, apns: Providers) -> String {
    """
    push:
      endpoints:
        apns: https://localhost:\(apns.apns)
        fcm: https://localhost:\(providers.https)
        fcm-oauth: https://localhost:\(providers.https)\(StandInHTTP1.tokenPath)
        trust: \(file("chain.pem").path)
      webpush:
        allow-private: true
    push-gateway:
      apps:
        \(WakeProvider.apns.appID):
          type: apns
          keyfile: \(file("apns.p8").path)
          key_id: KEYID00001
          team_id: TEAMID0001
          topic: org.example.bench
        \(WakeProvider.fcm.appID):
          type: gcm
          api_version: v1
          project_id: bench
          service_account_file: \(file("service-account.json").path)
          max_connections: 32
          inflight_request_limit: 20000
        \(WakeProvider.webPush.appID):
          type: webpush
          vapid_private_key: \(file("vapid.pem").path)
          vapid_contact_email: bench@example.org
          max_connections: 32
    """
  }
}
