import ChildProcesses
import Foundation
import OrderedCollections
import RelayCore
import TestSupport
import TestTags
import Testing

/// The words to operators from `relay serve`, `relay check`, `relay doctor` and `relay push-gateway import`.
@Suite(.tags(.processes)) struct GatewayCommandTests {
  private struct Diagnosis: Decodable {
    let group: String
    let check: String
    let outcome: String
    let text: String
    let remedy: String?
  }

  @Test func `serve names each app whose credentials cannot be used, the file, and what to do`() async throws {
    try await ServedGateway.with { site in
      let port = try Loopback.freePorts(1)[0]
      try FileManager.default.removeItem(atPath: site.files.apnsKey)
      try site.files.write("no key", to: "vapid.pem")
      let relay = try await site.site.startServing(site.variables(port: port))
      let exit = await relay.exit(within: .seconds(120))
      #expect(exit == .code(1))
      let log = relay.log()
      #expect(log.contains("push-gateway.apps.com.example.ios: \(site.files.apnsKey): No such file or directory."))
      #expect(log.contains("push-gateway.apps.*.web: \(site.files.vapidKey): no private key in PEM."))
      #expect(log.contains("docs/push.md"))
    }
  }

  @Test func `a faulty app is named with its line and exit code 78, and no secret is shown`() async throws {
    try await ServedGateway.with { site in
      let more = """
            com.example.bad:
              type: apns
              keyfile: key.p8
              platform: staging
            com.example.old:
              type: gcm
              api_key: needle
              inflight_request_limit: many
        """
      try site.write(site.yaml(more: more))
      let result = try await site.site.run(["check"], overrides: site.variables(port: 5000))
      #expect(result.exit == .code(78))
      let place = "\(site.configuration):"
      let faults = result.errors.split(separator: "\n").map(String.init)
      for (option, text) in [
        ("com.example.bad.platform", "expects one of production, prod, sandbox"),
        ("com.example.bad.key_id", "is needed beside keyfile"),
        ("com.example.old.inflight_request_limit", "expects a whole number from 1 to 1000000"),
      ] {
        let fault = try #require(faults.first { $0.contains("push-gateway.apps.\(option): \(text)") }, "\(faults)")
        #expect(fault.contains(place))
      }
      #expect(!result.errors.contains("needle") && !result.output.contains("needle"))
    }
  }

  @Test func `check shows the apps by name and type`() async throws {
    try await ServedGateway.with { site in
      let result = try await site.site.run(["check"], overrides: site.variables(port: 5000))
      #expect(result.exit == .code(0), "\(result.errors)")
      let line = result.output.split(separator: "\n").first { $0.hasPrefix("push-gateway.apps") }
      #expect(line?.contains("com.example.ios (apns), com.example.a* (gcm), *.web (webpush)") == true)
    }
  }

  @Test func `doctor looks at credentials, at their end, and at the way to each provider`() async throws {
    try await ServedGateway.with { site in
      // Apple's own address is the fake that asks for tokens; a certificate is looked at all the same.
      try site.files.makeCertificate(until: Date(timeIntervalSinceNow: 10 * 86_400))
      let more = """
            com.example.certificate:
              type: apns
              certfile: \(site.files.certificate)
        """
      try site.write(site.yaml(more: more))
      let (relay, client) = try await site.serve()
      var variables = site.variables(port: client.port)
      variables["RELAY_CLIENT_PORT"] = "\(relay.clientPort)"
      variables["RELAY_OPERATOR_PORT"] = "\(relay.operatorPort)"
      let found = try Self.findings(await site.site.run(["doctor", "--json"], overrides: variables))
      #expect(found.first { $0.group == "ports" && $0.check == "push-gateway" }?.outcome == "ok")
      let push = found.filter { $0.group == "push" }
      #expect(push.count == 4 && push.filter { $0.outcome == "ok" }.count == 3, "\(push)")
      let ending = try #require(push.first { $0.check == "gateway com.example.certificate credentials" })
      #expect(ending.outcome == "warn" && ending.text.contains("days left") && ending.remedy != nil)

      try await site.google.exchange.close()
      try site.files.write("no key", to: "vapid.pem")
      let worse = try Self.findings(await site.site.run(["doctor", "--json"], overrides: variables))
      let failed = worse.filter { $0.group == "push" && $0.outcome == "fail" }
      #expect(failed.map(\.check) == ["gateway com.example.a* provider", "gateway *.web credentials"])
      #expect(failed.first?.text.contains(site.google.tokenURL) == true)
      await relay.kill9()
    }
  }

  private static func findings(_ result: CommandResult) throws -> [Diagnosis] {
    try JSONDecoder().decode([Diagnosis].self, from: Data(result.output.utf8))
  }

  @Test func `Sygnal's configuration is translated, and a relay can serve with it`() async throws {
    try await ServedGateway.with { site in
      let sygnal = site.site.folder + "/sygnal.yaml"
      let ours = site.site.folder + "/imported.yaml"
      // As Sygnal's own sample file: comments, sections that are empty, an app of each kind.
      try """
      # See the documentation.
      http:
        bind_addresses: ['127.0.0.1', '::1']
        port: 5001
      log:
        setup: {version: 1}
      proxy: http://proxy.example
      metrics:
        prometheus:
          enabled: yes
      apps:
        \(ServedGateway.ios): &apple
          type: apns
          platform: sandbox
          keyfile: \(site.files.apnsKey)
          key_id: \(PushFiles.keyID)
          team_id: \(PushFiles.teamID)
          topic: \(PushFiles.topic)
        com.example.ios.voip:
          <<: *apple
          push_type: voip
        com.example.android:
          type: gcm
          api_version: v1
          project_id: \(PushFiles.project)
          service_account_file: \(site.files.serviceAccount)
          inflight_request_limit: 100
        '*.web':
          type: webpush
          vapid_private_key: \(site.files.vapidKey)
          vapid_contact_email: push@example.org
          allowed_endpoints:
            - '*.example.org'
      """.write(toFile: sygnal, atomically: true, encoding: .utf8)
      let printed = try await site.site.run(["push-gateway", "import", sygnal])
      #expect(printed.exit == .code(0), "\(printed.errors)")
      let written = try await site.site.run(["push-gateway", "import", sygnal, "--output", ours])
      #expect(written.exit == .code(0) && written.output.isEmpty)
      #expect(try String(contentsOfFile: ours, encoding: .utf8) == printed.output)
      for note in ["http.bind_addresses:", "log:", "proxy:", "metrics.prometheus:"] {
        #expect(printed.errors.contains("note: \(note)"), "\(note)")
      }
      // It writes over nothing.
      let again = try await site.site.run(["push-gateway", "import", sygnal, "--output", ours])
      #expect(again.exit == .code(1) && again.errors.contains("a file stands in the way"))
      let port = try Loopback.freePorts(1)[0]
      let imported = ["RELAY_CONFIG": ours, "RELAY_PUSH_GATEWAY_PORT": "\(port)"]
      let relay = try await site.site.serve(imported)
      let reply = try await GatewayClient(port: port).notify([("nobody", "k")])
      #expect(reply.status == 200 && reply.rejected == ["k"])
      await relay.kill9()
    }
  }

  @Test func `the recorded configuration is translated to one with the same apps`() async throws {
    try await ServedGateway.with { site in
      let file = site.site.folder + "/sygnal.yaml"
      let vectors = try Vectors()
      // JSON is YAML.
      try #"{"apps": \#(try vectors.object("apps").json)}"#.write(toFile: file, atomically: true, encoding: .utf8)
      let result = try await site.site.run(["push-gateway", "import", file])
      #expect(result.exit == .code(0), "\(result.errors)")
      for name in try #require(vectors.object("apps").object).keys { #expect(result.output.contains(name.text)) }
    }
  }

  @Test(arguments: ["http: {}\n", "- a\n", "apps:\n  a:\n    type: carrier.pigeon\n", "a: [\n"])
  func `a configuration that Sygnal would not start with is refused`(_ yaml: String) async throws {
    try await RelayOperator.with { site in
      let file = site.folder + "/sygnal.yaml"
      try yaml.write(toFile: file, atomically: true, encoding: .utf8)
      let result = try await site.run(["push-gateway", "import", file])
      #expect(result.exit == .code(1) && result.output.isEmpty && result.errors.contains(file))
    }
  }
}
