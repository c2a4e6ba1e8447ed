import ChildProcesses
import Foundation
import RelayClient
import RelayMetrics
import TestSupport
import TestTags
import Testing

/// The alerts of deploy/prometheus: their syntax, a history for each, and real relays that make them fire.
@Suite(.tags(.processes)) struct AlertTests {
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

  @Test func `a relay shows metrics of the table alone`() async throws {
    try await PeeredSites.with { sites in
      let shown = try await sites.alphaRelay.ask("/metrics").text
      let families = shown.matches(of: #/# HELP (\w+) (.*)\n# TYPE (\w+) (\w+)\n/#)
      #expect(families.count > 30)
      for family in families {
        let metric = RelayMetric.byName[String(family.1)]
        #expect(metric.map { type(of: $0).type.rawValue } == String(family.4), "\(family.1)")
        #expect(metric.map(\.help) == String(family.2), "\(family.1)")
      }
      let labels = shown.matches(of: #/\n([a-z_]+)\{([^\n]*)\} /#)
      #expect(!labels.isEmpty)
      for line in labels {
        let name = String(line.1)
        let family = RelayMetric.byName[name] == nil ? name.replacing(/_(bucket|sum|count)$/, with: "") : name
        let metric = try #require(RelayMetric.byName[family], "\(name)")
        let found = Set(line.2.matches(of: #/(\w+)="/#).map { String($0.1) }).subtracting(["le"])
        #expect(found == Set(type(of: metric).labels.map { $0.name }), "\(line.0)")
      }
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

  @Test func `certificates end, files run out, requests are slow, messages for a peer are given up`() async throws {
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
      // Only the thresholds are others: leaves live for 90 days, CAs for ten years.
      let changes = [
        "< 14 * 86400": "< 4000 * 86400", "< 2 * 86400": "< 100 * 86400", "> 0.8": "> 0.0001",
        #"p99_5m{edge="client"} > 1"#: #"p99_5m{edge="client"} > 0"#,
      ]
      try await PrometheusServer.with(watching: [beta], changing: changes) { prometheus in
        try await prometheus.untilJudged()
        for name in ["RelayCertificateEnds", "RelayCertificateEnded", "RelayFilesRunOut"] {
          try await prometheus.expect(name)
        }
        let ends = try await prometheus.alerts().filter { $0["alertname"] == "RelayCertificateEnded" }
        #expect(ends.allSatisfy { $0["kind"] == "leaf" } && ends.contains { $0["holder"] == "own" }, "\(ends)")
        try await eventually("RelayRequestsSlow fires", within: .seconds(60), every: .milliseconds(100)) {
          _ = try await beta.send("GET", "/v1/keys", as: alice)
          return try await prometheus.alerts().contains { $0["alertname"] == "RelayRequestsSlow" }
        }
        #expect(try await !prometheus.alerts().contains { $0["alertname"] == "RelayOutboxGivesUp" })
        await alpha.kill9()
        try await eventually("a message is held", within: .seconds(60), every: .milliseconds(200)) {
          try await send(2) == 200
        }
        // Its recipient is gone when the peer is back.
        try await sites.alpha.relay("accounts", "delete", bob.number)
        let back = try await sites.alpha.serve([
          "RELAY_FEDERATION_PORT": "\(sites.alpha.federationPort)", "RELAY_OPERATOR_PORT": "\(alpha.operatorPort)",
        ])
        try await prometheus.expect("RelayOutboxGivesUp", within: .seconds(90))
        #expect(await back.terminate() == .code(0))
      }
    }
  }

  @Test func `keys are held back while nobody can tell whether the store is an older state`() async throws {
    try await PeeredSites.with { sites in
      let (owner, caller) = (try await sites.betaRelay.register(), try await sites.betaRelay.register())
      try await sites.betaRelay.upload(Array(1...5), as: owner)
      for relay in [sites.alphaRelay, sites.betaRelay] { #expect(await relay.terminate() == .code(0)) }
      // Its only witness is away.
      let alone = try await sites.beta.serve(["RELAY_FEDERATION_PORT": "\(sites.beta.federationPort)"])
      try await PrometheusServer.with(watching: [alone]) { prometheus in
        try await prometheus.untilJudged()
        #expect(try await alone.send("GET", "/v1/keys/\(owner.number)/1", as: caller).status == 200)
        try await prometheus.expect("RelayPreKeysHeldBack")
      }
      #expect(await alone.terminate() == .code(0))
    }
  }

  @Test func `contacts are enumerated, and receipts find no room`() async throws {
    let settings = [
      "RELAY_MESSAGES_MAILBOX_MAX": "10", "RELAY_MESSAGES_MAILBOX_SENDER_MAX": "10",
      "RELAY_DIRECTORY_REFUSE_ENUMERATION": "false",
    ]
    try await RelayOperator.with(settings: Cluster.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      let row = (0..<200).map { "+4915\(100_000_000 + $0)" }
      for number in stride(from: 5, to: 200, by: 20).map({ row[$0] }) { _ = try await relay.register(number) }
      func send(to recipient: TestDevice, as sender: TestDevice, _ time: Int) async throws -> Int {
        let body = #"{"timestamp":\#(time),"messages":[\#(message(registrationID: recipient.registrationID))]}"#
        return try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: body, as: sender).status
      }
      func look(as caller: TestDevice) async throws {
        let list = try row.map { "\"\(ContactTokens.token(for: try #require(PhoneNumber($0))))\"" }
        let answer = try await relay.send(
          "PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(list.joined(separator: ","))]}"#, as: caller)
        #expect(answer.status == 200, "\(answer.text)")
      }
      #expect(try await send(to: bob, as: ann, 1) == 200)
      for time in 1...10 { #expect(try await send(to: ann, as: bob, time) == 200) }
      #expect(try await send(to: ann, as: bob, 11) == 413, "ann's mailbox is full")
      try await look(as: bob)
      try await PrometheusServer.with(watching: [relay], changing: ["[1h])) > 20": "[1h])) > 0"]) { prometheus in
        try await prometheus.untilJudged()
        #expect(try await prometheus.alerts().isEmpty)
        // The same person's same question would be no other suspicion.
        try await look(as: ann)
        try await prometheus.expect("RelayContactsEnumerated")
        let taken = try await relay.send("DELETE", "/v1/messages/\(ann.number)/1", as: bob)
        #expect((200...204).contains(taken.status))
        try await prometheus.expect("RelayReceiptsLost")
        let labels = try await prometheus.alerts().first { $0["alertname"] == "RelayReceiptsLost" }
        #expect(labels?["reason"] == "mailbox-full")
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `pushes do not get out, and a certificate of Apple's ends`() async throws {
    let files = try PushFiles()
    let fcm = try await FakeFCM(files, key: try files.makeServiceAccount())
    try files.makeCertificate()
    let settings = Cluster.unlimited.merging([
      "RELAY_PUSH_ENDPOINTS_FCM": fcm.url, "RELAY_PUSH_ENDPOINTS_FCM_OAUTH": fcm.tokenURL,
      "RELAY_PUSH_ENDPOINTS_TRUST": files.trust, "RELAY_PUSH_FCM_SERVICE_ACCOUNT_FILE": files.serviceAccount,
      "RELAY_PUSH_APNS_CERTIFICATE_FILE": files.certificate, "RELAY_PUSH_APNS_TOPIC": PushFiles.topic,
      "RELAY_PUSH_PAUSE_SECONDS": "0",
    ]) { $1 }
    // No provider listens there any more.
    try await fcm.close()
    try await RelayOperator.with(settings: settings) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      let registered = try await relay.send(
        "PUT", "/v1/accounts/gcm/", json: #"{"gcmRegistrationId":"token","webSocketChannel":true}"#, as: bob)
      #expect((200...204).contains(registered.status), "\(registered.text)")
      let changes = ["relay_wakes_oldest_seconds) > 300": "relay_wakes_oldest_seconds) > 1"]
      try await PrometheusServer.with(watching: [relay], changing: changes) { prometheus in
        try await prometheus.untilJudged()
        // It lives for a day.
        try await prometheus.expect("RelayPushCredentialsEnd")
        let body = #"{"timestamp":1,"messages":[\#(message(registrationID: bob.registrationID))]}"#
        #expect(try await relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: ann).status == 200)
        try await prometheus.expect("RelayWakesWait", within: .seconds(90))
        try await prometheus.expect("RelayPushHalted", within: .seconds(90))
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a store that was put back to an older state`() async throws {
    try await RedisServer.with { redis in
      try await RelayOperator.with(settings: Cluster.unlimited) { site in
        let shared = ["RELAY_COORDINATION_URL": redis.url]
        let before = try await site.serve(shared)
        _ = try await before.register()
        #expect(await before.terminate() == .code(0))
        func files() throws -> [String] {
          try FileManager.default.contentsOfDirectory(atPath: site.folder).filter { $0.hasPrefix("relay.sqlite") }
        }
        let copies = try files().map { ($0, FileManager.default.contents(atPath: site.folder + "/\($0)")) }
        let next = try await site.serve(shared)
        #expect(await next.terminate() == .code(0))
        for file in try files() { try FileManager.default.removeItem(atPath: site.folder + "/\(file)") }
        for (name, content) in copies { try #require(content).write(to: URL(filePath: site.folder + "/\(name)")) }
        let restored = try await site.serve(shared)
        try await PrometheusServer.with(watching: [restored]) { prometheus in
          try await prometheus.expect("RelayStoreRestored")
        }
        #expect(await restored.terminate() == .code(0))
      }
    }
  }

  @Test func `a clock that is not believed`() async throws {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      let before = try await site.serve()
      _ = try await before.register()
      #expect(await before.terminate() == .code(0))
      try await site.leaveStoreAlone(forDays: 40)
      let ahead = try await site.serve()
      try await PrometheusServer.with(watching: [ahead]) { prometheus in
        try await prometheus.untilJudged()
        try await prometheus.expect("RelayClockNotBelieved")
        // The relay hears of the operator's word within seconds.
        try await site.relay("storage", "clock", "--accept")
        try await prometheus.expectQuiet("RelayClockNotBelieved")
      }
      #expect(await ahead.terminate() == .code(0))
    }
  }

  @Test func `Redis is away, requests fail, the directory falls behind`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      try await cluster.serve(1) { relays in
        let sender = try await relays[0].register()
        try await PrometheusServer.with(
          watching: relays, changing: ["relay_directory_lag_seconds > 60": "relay_directory_lag_seconds > 2"]
        ) { prometheus in
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
          try await prometheus.expect("RelayDirectoryBehind", within: .seconds(90))
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
