import ChildProcesses
import Foundation
import TestSupport
import Testing

/// The alerts of deploy/prometheus: their syntax, a history for each, and real relays that make them fire.
@Suite struct AlertTests {
  private static var text: String {
    get throws {
      try String(contentsOf: PrometheusServer.rules.appending(path: "relay.rules.yml"), encoding: .utf8)
    }
  }

  private static let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true}"#

  private static func names(_ text: String) -> [String] {
    text.split(separator: "\n").compactMap { line in
      line.split(separator: "- alert: ").count == 2 ? String(line.split(separator: "- alert: ")[1]) : nil
    }
  }

  @Test(arguments: [
    ["check", "rules", "relay.rules.yml"], ["test", "rules", "relay.rules.test.yml"],
    ["check", "config", "prometheus.yml"],
  ])
  func `promtool takes the rules, and their histories come out as they say`(_ arguments: [String]) async throws {
    let output = FileManager.default.temporaryDirectory.appending(path: "relay-promtool-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: output) }
    let child = try await ChildProcess.start(
      .init(
        command: ["/usr/bin/promtool"] + arguments, environment: [:], folder: PrometheusServer.rules.path,
        standardOutput: output, standardError: output))
    let exit = await child.killed(after: .seconds(60))
    let words = try String(contentsOfFile: output, encoding: .utf8)
    #expect(exit == .code(0), "\(words.suffix(2000))")
  }

  @Test func `every alert has a history and a section of the runbook, and every section an alert`() throws {
    let (text, names) = (try Self.text, Self.names(try Self.text))
    #expect(names.count > 15 && Set(names).count == names.count)
    let histories = try String(
      contentsOf: PrometheusServer.rules.appending(path: "relay.rules.test.yml"), encoding: .utf8)
    let root = PrometheusServer.rules.deletingLastPathComponent().deletingLastPathComponent()
    let runbook = try String(contentsOf: root.appending(path: "docs/runbook.md"), encoding: .utf8)
    let sections = Set(
      runbook.split(separator: "\n").filter { $0.hasPrefix("## ") }.map { $0.dropFirst(3).lowercased() })
    for name in names { #expect(histories.contains("alertname: \(name)\n"), "\(name)") }
    let links = text.split(separator: "\n").compactMap { line in
      line.split(separator: "runbook_url: docs/runbook.md#").count == 2
        ? String(line.split(separator: "runbook_url: docs/runbook.md#")[1]) : nil
    }
    #expect(links.count == names.count && Set(links) == sections, "\(Set(links).symmetricDifference(sections))")
  }

  @Test func `the dashboard is the one of this build, and a relay shows each of its metrics`() async throws {
    try await PeeredSites.with { sites in
      let printed = try await sites.alpha.relay("dashboard")
      let file = PrometheusServer.rules.deletingLastPathComponent().appending(path: "grafana/relay.json")
      #expect(try String(contentsOf: file, encoding: .utf8) == printed, "relay dashboard > deploy/grafana/relay.json")
      let root = try #require(try JSONSerialization.jsonObject(with: Data(printed.utf8)) as? [String: Any])
      let panels = try #require(root["panels"] as? [[String: Any]])
      let expressions = panels.flatMap { $0["targets"] as? [[String: Any]] ?? [] }.compactMap { $0["expr"] as? String }
      #expect(expressions.count > 20)
      let rules = try Self.text.split(separator: "\n").filter { !$0.contains("#") }.joined(separator: "\n")
      let used = Set((expressions + [rules]).flatMap(Self.metrics))
      // What a relay shows from the start, and what it shows once something has happened: their HELP texts name both.
      let shown = try await sites.alphaRelay.ask("/metrics").text
      let known = try String(
        contentsOf: PrometheusServer.rules.deletingLastPathComponent().deletingLastPathComponent()
          .appending(path: "Sources/Operations/MetricHelp.swift"), encoding: .utf8)
      for metric in used {
        #expect(shown.contains("# TYPE \(metric) ") || known.contains("\"\(metric)\":"), "\(metric)")
      }
    }
  }

  /// The metrics of relays that an expression names.
  private static func metrics(_ text: String) -> [String] {
    text.matches(of: #/\b(relay_[a-z0-9_]+|process_[a-z_]+)/#).map { String($0.1) }.map {
      $0.hasSuffix("_bucket") ? String($0.dropLast("_bucket".count)) : $0
    }
  }

  @Test func `a process that is gone, a peer that is away and messages that wait for it`() async throws {
    try await PeeredSites.with { sites in
      let (alpha, beta) = (sites.alphaRelay, sites.betaRelay)
      try await sites.beta.relay("peer", "set", "alpha", "--hold", "on")
      let (bob, alice) = (try await alpha.register(), try await beta.register())
      func send(_ time: Int) async throws -> Int {
        let body =
          #"{"relay":"alpha","timestamp":\#(time),"messages":[\#(message(registrationID: bob.registrationID))]}"#
        return try await beta.send("PUT", "/v1/messages/\(bob.number)", json: body, as: alice).status
      }
      try await eventually("bob's devices are confirmed", every: .milliseconds(200)) { try await send(1) == 200 }
      try await PrometheusServer.with(watching: [alpha, beta], changing: ["> 21600": "> 0"]) { prometheus in
        try await prometheus.untilJudged()
        #expect(try await prometheus.alerts().isEmpty)
        await alpha.kill9()
        try await prometheus.expect("RelayDown")
        try await eventually("a message is held", within: .seconds(60), every: .milliseconds(200)) {
          try await send(2) == 200
        }
        try await prometheus.expect("RelayPeerAway", within: .seconds(90))
        try await prometheus.expect("RelayOutboxOld", within: .seconds(90))
        let labels = try await prometheus.alerts().first { $0["alertname"] == "RelayPeerAway" }
        #expect(labels?["peer"] == "alpha")
      }
    }
  }

  @Test func `Redis is away, requests fail, and all of it is quiet again`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      try await cluster.serve(1) { relays in
        let sender = try await relays[0].register()
        try await PrometheusServer.with(watching: relays) { prometheus in
          try await prometheus.untilJudged()
          #expect(try await prometheus.alerts().isEmpty)
          cluster.redis.stop()
          try await prometheus.expect("RelayRedisAway")
          try await cluster.redis.start()
          try await prometheus.expectQuiet("RelayRedisAway")

          try await Loopback.blocking { try cluster.postgres.stop() }
          try await eventually("RelayRequestsFail fires", within: .seconds(90), every: .milliseconds(50)) {
            _ = try await relays[0].send("GET", "/v1/keys", as: sender)
            return try await prometheus.alerts().contains { $0["alertname"] == "RelayRequestsFail" }
          }
          try await Loopback.blocking { try cluster.postgres.start() }
        }
      }
    }
  }

  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `a full disk, and codes that are guessed`() async throws {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      let folder = site.folder + "/store"
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      let disk = try TestDisk(at: folder)
      defer { disk.remove() }
      let relay = try await site.serve(["RELAY_STORAGE_URL": "sqlite:\(folder)/relay.sqlite"])
      try await PrometheusServer.with(watching: [relay], changing: ["[10m])) > 100": "[10m])) > 2"]) { prometheus in
        try await prometheus.untilJudged()
        #expect(try await prometheus.alerts().isEmpty)
        for _ in 0..<30 {
          let number = TestDevice.freshNumber()
          #expect(try await relay.send("GET", "/v1/accounts/dev/code/\(number)").status == 200)
          let wrong = TestDevice(number: number, password: "password")
          let answer = try await relay.send("PUT", "/v1/accounts/code/000000", json: Self.attributes, as: wrong)
          #expect(answer.status == 403, "\(answer.text)")
          try await Task.sleep(for: .milliseconds(100))
        }
        try await prometheus.expect("RelayCodesGuessed")
        try disk.fill()
        try await eventually("the store refuses", within: .seconds(60), every: .milliseconds(100)) {
          try await relay.send("GET", "/v1/accounts/dev/code/\(TestDevice.freshNumber())").status == 503
        }
        try await prometheus.expect("RelayStoreRefusesWrites")
        try disk.free()
        try await prometheus.expectQuiet("RelayStoreRefusesWrites", within: .seconds(90))
      }
      #expect(await relay.terminate() == .code(0))
    }
  }
}
