import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// A store whose disk is full takes nothing: that is told everywhere, and what only reads goes on.
@Suite(.tags(.processes)) struct FullDiskTests {
  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `PostgreSQL's disk is full: readiness, metric, log and doctor name it, reads go on, and it passes by itself`()
    async throws
  {
    let postgres = try await Loopback.blocking { try PostgresServer(hasOwnDisk: true) }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    let disk = try #require(postgres.disk)
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      try await Self.check(
        site, ["RELAY_STORAGE_URL": database, "RELAY_STORAGE_MIGRATE": "true"], disk,
        reason: "PostgreSQL refuses writes: its disk is full")
    }
    try await Loopback.blocking { try postgres.stop() }
  }

  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `SQLite's disk is full: readiness, metric, log and doctor name it, reads go on, and it passes by itself`()
    async throws
  {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      let folder = site.folder + "/store"
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      let disk = try TestDisk(at: folder)
      defer { disk.remove() }
      try await Self.check(
        site, ["RELAY_STORAGE_URL": "sqlite:\(folder)/relay.sqlite"], disk,
        reason: "SQLite refuses writes: its disk is full")
    }
  }

  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `a relay that nobody writes to finds out by itself`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer(hasOwnDisk: true) }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    try await RelayOperator.with { site in
      let relay = try await site.serve(["RELAY_STORAGE_URL": database, "RELAY_STORAGE_MIGRATE": "true"])
      var told: String?
      do {
        try await eventually("it is found out", within: .seconds(90), every: .milliseconds(250)) {
          // Time and again: a file that PostgreSQL itself removes or replaces would leave room for a small write.
          try await Loopback.blocking { try postgres.disk?.fill() }
          told = await relay.readyz()?.body
          return told?.contains("its disk is full") == true
        }
      } catch {
        throw TestFailure("\(error); readiness: \(told ?? "no answer"); the relay's log: \(relay.log().suffix(2000))")
      }
      try await Loopback.blocking { try postgres.disk?.free() }
      try await eventually("it is ready again", within: .seconds(30)) { await relay.readyz()?.status == 200 }
      #expect(await relay.terminate() == .code(0))
    }
    try await Loopback.blocking { try postgres.stop() }
  }

  /// Messages are sent until the store has no room, and again when it has.
  private static func check(
    _ site: RelayOperator, _ settings: [String: String], _ disk: TestDisk, reason: String
  ) async throws {
    let relay = try await site.serve(settings)
    let (sender, recipient) = (try await relay.register(), try await relay.register())
    let (path, body) = ("/v1/messages/\(recipient.number)", message(String(repeating: "AAAA", count: 2000)))
    var accepted: [Int64] = []
    func send(_ time: Int64) async throws -> Int {
      let answer = try await relay.send("PUT", path, json: bundle(body, timestamp: time), as: sender)
      if answer.status == 200 { accepted.append(time) }
      return answer.status
    }
    #expect(try await send(1) == 200)
    #expect(try await isWritable(relay))

    try await Loopback.blocking { try disk.fill() }
    var (time, refusals) = (Int64(1), 0)
    while refusals < 10, time < 2000 {
      time += 1
      let status = try await send(time)
      #expect([200, 503].contains(status), "\(status)")
      if status == 503 { refusals += 1 }
    }
    #expect(refusals == 10, "the disk is full")
    let (status, words) = try await eventually("readyz says so") {
      await relay.readyz().flatMap { $0.status == 503 ? $0 : nil }
    }
    #expect(status == 503 && words.contains(#""storage":"\#(reason)"#), "\(words)")
    try await eventually("the metric says so") { try await !isWritable(relay) }
    let log = relay.log()
    #expect(log.contains("the store takes no writes; reads go on") && log.contains(reason), "\(log.suffix(2000))")
    let doctor = try await site.run(["doctor"], overrides: settings)
    #expect(doctor.exit != .code(0))
    // PostgreSQL lets nobody in who needs a file that it cannot write.
    let isNamed = doctor.output.contains(reason) || doctor.output.contains("could not write init file")
    #expect(isNamed && doctor.output.contains("Give the store's disk room"), "\(doctor.output)")

    // Requests that only read are served.
    let listed = try await relay.send("GET", "/v1/messages", as: recipient)
    #expect(listed.status == 200 && listed.text.contains(#""timestamp":1,"#), "\(listed.status)")
    #expect(try await relay.send("GET", "/v1/keys", as: recipient).status == 200)

    try await Loopback.blocking { try disk.free() }
    try await eventually("it is ready again", within: .seconds(30)) { await relay.readyz()?.status == 200 }
    try await eventually("the metric says so") { try await isWritable(relay) }
    try await eventually("the log says so") { relay.log().contains("the store takes writes again") }
    #expect(try await send(time + 1) == 200)
    #expect(try await site.run(["doctor", "--json"], overrides: settings).output.contains("takes writes"))
    let kept = Set(try await relay.mailbox(of: recipient).compactMap { $0["timestamp"] as? Int64 })
    #expect(kept.isSuperset(of: accepted), "what was accepted is there")
    #expect(await relay.terminate() == .code(0))
  }

  private static func isWritable(_ relay: RelayProcess) async throws -> Bool {
    let lines = try await relay.ask("/metrics").text.split(separator: "\n")
    let line = try #require(lines.first { $0.hasPrefix("relay_storage_writable ") })
    return line == "relay_storage_writable 1"
  }
}
