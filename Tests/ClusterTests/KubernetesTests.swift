import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// `deploy/kubernetes`: checked against the published schemas, and what it configures against a relay.
@Suite(.tags(.processes)) struct KubernetesTests {
  private static var manifests: String { NginxTests.deploy.appending(path: "kubernetes/relay.yaml").path }

  /// Of scripts/install-python-tools.sh.
  private static func python(_ arguments: [String], in folder: String) throws -> (
    exit: ChildProcess.Exit, output: String
  ) {
    let bin = NginxTests.deploy.deletingLastPathComponent().appending(path: ".build/python/bin").path
    let output = folder + "/output-\(UUID().uuidString)"
    let exit = try ChildProcess.run(
      .init(
        command: ["\(bin)/\(arguments[0])"] + arguments.dropFirst(), environment: ["PATH": "/usr/bin:/bin"],
        folder: folder,
        standardOutput: output, standardError: output))
    return (exit, (try? String(contentsOfFile: output, encoding: .utf8)) ?? "")
  }

  @Test func `every manifest is what Kubernetes' schemas say`() async throws {
    try await RelayOperator.with { site in
      let checked = try Self.python(["kubernetes-validate", "--strict", Self.manifests], in: site.folder)
      #expect(checked.exit == .code(0), "\(checked.output)")
      for kind in ["configmap", "deployment", "poddisruptionbudget", "service", "networkpolicy"] {
        #expect(checked.output.contains("resource \(kind)/relay"), "\(checked.output)")
      }
      // It would say so.
      let text = try String(contentsOfFile: Self.manifests, encoding: .utf8)
      let broken = site.folder + "/broken.yaml"
      try text.replacing("terminationGracePeriodSeconds: 110", with: "terminationGraceSeconds: 110")
        .write(toFile: broken, atomically: true, encoding: .utf8)
      #expect(try Self.python(["kubernetes-validate", "--strict", broken], in: site.folder).exit != .code(0))
    }
  }

  @Test func `its configuration holds, and its probes are answered`() async throws {
    try await RelayOperator.with("alpha") { site in
      let secrets = site.folder + "/secrets"
      try FileManager.default.createDirectory(atPath: secrets, withIntermediateDirectories: false)
      for (name, text) in [
        ("storage-url", "postgres://relay@127.0.0.1:5432/relay"), ("coordination-url", "redis://127.0.0.1:6379"),
        ("encryption-key", Data(repeating: 7, count: 32).base64EncodedString()), ("s3-secret-key", "secret"),
        ("webhook-secret", String(repeating: "w", count: 32)),
        ("read-tokens", "viewer:" + String(repeating: "r", count: 32)),
        ("change-tokens", "keeper:" + String(repeating: "c", count: 32)),
      ] {
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(secrets)/\(name)"))
      }
      let script = """
        import sys, yaml
        for document in yaml.safe_load_all(open(sys.argv[1])):
          if document["kind"] == "ConfigMap": print(document["data"]["relay.yaml"])
        """
      let configured = try Self.python(["python3", "-c", script, Self.manifests], in: site.folder)
      #expect(configured.exit == .code(0))
      let file = site.folder + "/relay.yaml"
      try configured.output.replacing("/etc/relay/secrets", with: secrets)
        .write(toFile: file, atomically: true, encoding: .utf8)
      // Nothing of the test's own settings.
      let clean = Dictionary(
        uniqueKeysWithValues: site.environment().keys.filter { $0.hasPrefix("RELAY_") }.map { ($0, "") })
      let checked = try await site.run(["check", "--config", file], overrides: clean)
      #expect(checked.exit == .code(0), "\(checked.errors)")

      let relay = try await site.serve()
      let text = try String(contentsOfFile: Self.manifests, encoding: .utf8)
      let paths = Set(text.matches(of: /httpGet: \{path: ([^,]+),/).map { String($0.output.1) })
      #expect(paths == ["/livez", "/readyz"])
      for path in paths { #expect(try await relay.ask(path).status == 200) }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `the settings of the compose file are a valid configuration`() async throws {
    try await RelayOperator.with("alpha") { site in
      let script = """
        import sys, yaml
        services = yaml.safe_load(open(sys.argv[1]))["services"]
        for name in ("relay-one", "relay-two"):
          for key, value in services[name]["environment"].items(): print(key + "=" + str(value))
        """
      let file = NginxTests.deploy.appending(path: "compose/compose.yaml").path
      let printed = try Self.python(["python3", "-c", script, file], in: site.folder)
      #expect(printed.exit == .code(0), "\(printed.output)")
      var settings = Dictionary(
        uniqueKeysWithValues: site.environment().keys.filter { $0.hasPrefix("RELAY_") }.map { ($0, "") })
      for line in printed.output.split(separator: "\n") {
        let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
        settings[parts[0]] = parts.count == 2 ? parts[1] : ""
      }
      #expect(settings["RELAY_STORAGE_URL"]?.hasPrefix("postgres://") == true)
      let checked = try await site.run(["check"], overrides: settings)
      #expect(checked.exit == .code(0), "\(checked.errors)")
    }
  }
}
