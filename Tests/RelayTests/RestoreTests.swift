import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// No one-time prekey is handed out twice, not even by a store that was put back to an older state
/// (docs/decisions/2026-11-21-restored-stores.md).
@Suite(.tags(.processes)) struct RestoreTests {
  static let lastResort = 16_777_215

  /// The ids of the next `count` keys of `owner`; calls that fail are repeated.
  static func draw(_ count: Int, of owner: TestDevice, as caller: TestDevice, at relay: RelayProcess)
    async throws -> [Int]
  {
    var ids: [Int] = []
    for _ in 0..<count {
      ids += try await eventually("a key is drawn") { () -> [Int]? in
        let answer = try await relay.send("GET", "/v1/keys/\(owner.number)/1", as: caller)
        return answer.status == 200 ? answer.list("keys").compactMap { $0["keyId"] as? Int } : nil
      }
    }
    return ids
  }

  /// The relay's word on `owner`'s keys; calls that fail are repeated, as `draw` does.
  private static func supply(of owner: TestDevice, at relay: RelayProcess) async throws -> String {
    try await eventually("the supply is told") { () -> String? in
      let answer = try await relay.send("GET", "/v1/keys", as: owner)
      return answer.status == 200 ? answer.text : nil
    }
  }

  /// For a store that was put back: the keys that it holds may be known to others.
  static func expectSetAside(_ owner: TestDevice, _ caller: TestDevice, at relay: RelayProcess) async throws {
    try await eventually("the relay says so") { relay.log().contains("the store was put back to an older state") }
    try await expectRefilled(owner, caller, at: relay)
  }

  /// No key is left, and what is uploaded from now on serves.
  static func expectRefilled(_ owner: TestDevice, _ caller: TestDevice, at relay: RelayProcess) async throws {
    #expect(try await draw(3, of: owner, as: caller, at: relay) == [lastResort, lastResort, lastResort])
    #expect(try await supply(of: owner, at: relay) == #"{"count":0}"#)
    try await relay.upload(Array(101...105), as: owner)
    try await expectOneTimeKey(101, of: owner, as: caller, at: relay)
    #expect(try await draw(1, of: owner, as: caller, at: relay) == [102])
  }

  /// Waits until the process has written an epoch and told it.
  private static func expectWitnessed(_ relay: RelayProcess) async throws {
    try await eventually("a witness remembers an epoch of this process") {
      try await relay.ask("/metrics").text.contains("relay_store_witnesses 1\n")
    }
  }

  /// Waits until keys are not held back any more, and draws the first.
  static func expectOneTimeKey(
    _ id: Int, of owner: TestDevice, as caller: TestDevice, at relay: RelayProcess
  ) async throws {
    let drawn = try await eventually("one-time keys are handed out again") { () -> Int? in
      let drawn = try await draw(1, of: owner, as: caller, at: relay)
      return drawn == [lastResort] ? nil : drawn.first
    }
    #expect(drawn == id)
  }

  // MARK: - Embedded stores, a peer as the witness

  @Test
  func `an embedded store that is put back loses its keys by the operator's word, where one peer alone remembers`()
    async throws
  {
    try await PeeredOperator.withTwo { alpha, _ in
      let owner = try await alpha.relay.register()
      let caller = try await alpha.relay.register()
      try await alpha.relay.upload(Array(1...10), as: owner)
      #expect(try await Self.draw(1, of: owner, as: caller, at: alpha.relay) == [1])
      try await alpha.stop()
      let backup = try Backup(of: alpha.site)

      // An ordinary restart sets nothing aside.
      try await alpha.serve()
      #expect(try await Self.draw(3, of: owner, as: caller, at: alpha.relay) == [2, 3, 4])
      #expect(!alpha.relay.log().contains("put back"))
      try await Self.expectWitnessed(alpha.relay)
      try await alpha.stop()

      try backup.restore()
      try await alpha.serve()
      #expect(alpha.relay.log().contains("one peer alone claims"))
      #expect(alpha.relay.log().contains("relay storage restored"))
      // The process may run meanwhile.
      try await alpha.site.relay("storage", "restored")
      try await Self.expectRefilled(owner, caller, at: alpha.relay)

      // It is newest again.
      try await alpha.stop()
      try await alpha.serve()
      #expect(try await Self.draw(1, of: owner, as: caller, at: alpha.relay) == [103])
      #expect(!alpha.relay.log().contains("put back") && !alpha.relay.log().contains("claims"))
    }
  }

  @Test func `without a witness's word one-time keys are held back until there is one`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let owner = try await alpha.relay.register()
      let caller = try await alpha.relay.register()
      try await alpha.relay.upload(Array(1...10), as: owner)
      try await alpha.stop()
      try await beta.stop()
      try await alpha.serve()
      #expect(try await Self.draw(2, of: owner, as: caller, at: alpha.relay) == [Self.lastResort, Self.lastResort])
      #expect(try await Self.supply(of: owner, at: alpha.relay) == #"{"count":10}"#)
      #expect(alpha.relay.log().contains("one-time prekeys are held back"))
      try await beta.serve()
      try await Self.expectOneTimeKey(1, of: owner, as: caller, at: alpha.relay)
      #expect(!alpha.relay.log().contains("put back"))
    }
  }

  /// The database's files beside each other, as they lie while no process runs.
  struct Backup {
    private let folder: URL
    private let copy: URL

    init(of site: RelayOperator) throws {
      folder = URL(filePath: site.folder)
      copy = folder.appending(path: "backup-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: copy, withIntermediateDirectories: false)
      for file in try Self.files(in: folder) {
        try FileManager.default.copyItem(at: folder.appending(path: file), to: copy.appending(path: file))
      }
    }

    func restore() throws {
      for file in try Self.files(in: folder) { try FileManager.default.removeItem(at: folder.appending(path: file)) }
      for file in try Self.files(in: copy) {
        try FileManager.default.copyItem(at: copy.appending(path: file), to: folder.appending(path: file))
      }
    }

    private static func files(in folder: URL) throws -> [String] {
      try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("relay.sqlite") }
    }
  }

  // MARK: - PostgreSQL, Redis as the witness

  @Test func `a PostgreSQL that is put back is recognised by Redis's memory, by every process`() async throws {
    try await Self.withServers { site, postgres, redis in
      let relay = try await site.serve()
      let owner = try await relay.register()
      let caller = try await relay.register()
      try await relay.upload(Array(1...10), as: owner)
      #expect(try await Self.draw(1, of: owner, as: caller, at: relay) == [1])
      #expect(await relay.terminate() == .code(0))
      try await postgres.backUp()

      let second = try await site.serve()
      #expect(try await Self.draw(3, of: owner, as: caller, at: second) == [2, 3, 4])
      #expect(!second.log().contains("put back"))
      try await Self.expectWitnessed(second)
      #expect(await second.terminate() == .code(0))

      try await postgres.restore()
      async let one = site.serve()
      async let two = site.serve()
      let relays = try await [one, two]
      for relay in relays {
        #expect(try await Self.draw(2, of: owner, as: caller, at: relay) == [Self.lastResort, Self.lastResort])
      }
      #expect(relays.contains { $0.log().contains("the store was put back to an older state") })
      try await relays[0].upload(Array(101...105), as: owner)
      #expect(try await Self.draw(1, of: owner, as: caller, at: relays[0]) == [101])
      #expect(try await Self.draw(1, of: owner, as: caller, at: relays[1]) == [102])
      for relay in relays { #expect(await relay.terminate() == .code(0)) }
      withExtendedLifetime(redis) {}
    }
  }

  @Test func `a PostgreSQL that is put back under a running process is recognised by the process`() async throws {
    try await Self.withServers { site, postgres, redis in
      let relay = try await site.serve()
      let owner = try await relay.register()
      let caller = try await relay.register()
      try await relay.upload(Array(1...10), as: owner)
      try await postgres.backUp()
      let epoch = try await postgres.epoch()
      // The process may have noticed that its store was away.
      try await Self.expectOneTimeKey(1, of: owner, as: caller, at: relay)
      #expect(try await Self.draw(2, of: owner, as: caller, at: relay) == [2, 3])
      // A state that is younger than the last epoch, by a second at most, is the window that remains.
      try await eventually("the epoch has risen") { try await postgres.epoch() > epoch }
      try await postgres.restore {
        // The process notices that its store is away.
        let status = try await relay.send("GET", "/v1/keys/\(owner.number)/1", as: caller).status
        #expect(status == 503)
      }
      try await Self.expectSetAside(owner, caller, at: relay)
      #expect(await relay.terminate() == .code(0))
      withExtendedLifetime(redis) {}
    }
  }

  @Test
  func `while Redis does not answer at the start, one-time keys are held back; one that forgot holds nothing back`()
    async throws
  {
    try await Self.withServers { site, _, redis in
      let first = try await site.serve()
      let owner = try await first.register()
      let caller = try await first.register()
      try await first.upload(Array(1...10), as: owner)
      #expect(await first.terminate() == .code(0))
      redis.stop()
      let relay = try await site.serve()
      #expect(try await Self.draw(1, of: owner, as: caller, at: relay) == [Self.lastResort])
      try await redis.start()
      try await Self.expectOneTimeKey(1, of: owner, as: caller, at: relay)
      #expect(await relay.terminate() == .code(0))
    }
  }

  static func withServers(
    _ body: (RelayOperator, DataFolder, RedisServer) async throws -> Void
  ) async throws {
    let server = try await Loopback.blocking { try PostgresServer() }
    let database = try await Loopback.blocking { try server.createDatabase() }
    try await RedisServer.with { redis in
      try await RelayOperator.with(
        stores: .servers(storage: database, coordination: redis.url), settings: RelayUnderTest.unlimited
      ) { site in
        try await site.relay("migrate", "run")
        try await body(site, DataFolder(server: server, database: database), redis)
      }
    }
  }

  /// The files of a PostgreSQL server, copied and put back while it is stopped.
  struct DataFolder: Sendable {
    let server: PostgresServer
    let database: String

    @discardableResult func sql(_ text: String) async throws -> String {
      try await Loopback.blocking { try server.sql(text, in: database) }
    }

    func epoch() async throws -> Int64 {
      let text = try await sql("SELECT value FROM epochs")
      guard let epoch = Int64(text) else { throw TestFailure("no epoch: \(text)") }
      return epoch
    }

    func backUp() async throws {
      try await Loopback.blocking {
        try server.stop()
        try copy("data", to: "backup")
        try server.start()
      }
    }

    /// - Parameter meanwhile: runs while the server is away.
    func restore(_ meanwhile: () async throws -> Void = {}) async throws {
      try await Loopback.blocking { try server.stop() }
      try await meanwhile()
      try await Loopback.blocking {
        try FileManager.default.removeItem(atPath: server.folder + "/data")
        try copy("backup", to: "data")
        try server.start()
      }
    }

    /// With owners and permissions.
    private func copy(_ source: String, to target: String) throws {
      let exit = try ChildProcess.run(
        ChildProcess.Launch(
          command: ["cp", "-a", "\(server.folder)/\(source)", "\(server.folder)/\(target)"],
          environment: ProcessInfo.processInfo.environment, standardOutput: "/dev/null", standardError: "/dev/null"))
      guard exit == .code(0) else { throw TestFailure("cp \(exit)") }
    }
  }
}
