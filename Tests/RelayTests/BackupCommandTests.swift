import AsyncHTTPClient
import ChildProcesses
import Foundation
import NIOCore
import NIOHTTP1
import TestSupport
import TestTags
import Testing

/// `relay backup`, `relay backup verify` and `relay restore`: what was accepted before the backup is there again, and
/// nothing one-time is handed out twice.
@Suite(.tags(.processes)) struct BackupCommandTests {
  private static func send(_ relay: RelayProcess, to number: String, as sender: TestDevice, _ time: Int) async throws
    -> Int
  {
    let message = #"{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"QUJD"}"#
    return try await relay.send(
      "PUT", "/v1/messages/\(number)", json: #"{"messages":[\#(message)],"timestamp":\#(time)}"#, as: sender
    ).status
  }

  private static func waiting(_ relay: RelayProcess, _ device: TestDevice) async throws -> [Int] {
    try await relay.send("GET", "/v1/messages/", as: device).list("messages").compactMap { $0["timestamp"] as? Int }
  }

  private static func object(_ text: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
  }

  private static func ask(_ method: HTTPMethod, _ url: String, _ body: Data? = nil) async throws -> (
    status: Int, body: Data
  ) {
    var request = HTTPClientRequest(url: url)
    request.method = method
    request.headers.add(name: "Content-Type", value: "application/octet-stream")
    if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
    let response = try await TestHTTP.client.execute(request, timeout: .seconds(20))
    return (Int(response.status.code), Data((try await response.body.collect(upTo: 1 << 20)).readableBytesView))
  }

  @Test func `messages accepted before a backup under load are there after a restore, and no key comes twice`()
    async throws
  {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload(Array(1...20), as: bob)
      #expect(try await RestoreTests.draw(2, of: bob, as: ann, at: relay) == [1, 2])
      for time in 1...5 { #expect(try await Self.send(relay, to: bob.number, as: ann, time) == 200) }
      let file = site.folder + "/backup.tar"

      // Messages arrive while it is written.
      let enough = Ledger<Bool>()
      let load = Task {
        var time = 1000
        while enough.count == 0 {
          guard try await Self.send(relay, to: bob.number, as: ann, time) == 200 else { throw TestFailure("refused") }
          time += 1
        }
        return time - 1000
      }
      let done = try await site.run(["backup", file])
      enough.add(true)
      let sent = try await load.value
      #expect(done.exit == .code(0), "\(done.errors)")
      #expect(sent > 0 && done.output.contains("2 accounts, 2 devices"), "\(done.output)")
      let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
      #expect(mode == 0o600)
      let again = try await site.run(["backup", file])
      #expect(again.exit == .code(1) && again.errors.contains("there already"))

      // Behind the backup: keys are drawn, and messages arrive, that it does not know.
      #expect(try await RestoreTests.draw(3, of: bob, as: ann, at: relay) == [3, 4, 5])
      #expect(try await Self.send(relay, to: bob.number, as: ann, 9_999_999) == 200)

      let verified = try await site.run(["backup", "verify", file], within: .seconds(120))
      #expect(verified.exit == .code(0), "\(verified.errors)")
      #expect(verified.output.contains("can be restored: 2 accounts"), "\(verified.output)")
      // The store that serves has not changed.
      #expect(try await RestoreTests.draw(1, of: bob, as: ann, at: relay) == [6])

      let running = try await site.run(["restore", "--replace", file])
      #expect(running.exit == .code(1) && running.errors.contains("already serves"))
      #expect(await relay.terminate() == .code(0))
      let careful = try await site.run(["restore", file])
      #expect(careful.exit == .code(1) && careful.errors.contains("--replace"))
      let restored = try await site.run(["restore", "--replace", file])
      #expect(restored.exit == .code(0), "\(restored.errors)")

      let next = try await site.serve()
      let there = try await Self.waiting(next, bob)
      #expect(Array(there.prefix(5)) == [1, 2, 3, 4, 5] && !there.contains(9_999_999))
      try await RestoreTests.expectRefilled(bob, ann, at: next)
      #expect(await next.terminate() == .code(0))
      let kept = try FileManager.default.contentsOfDirectory(atPath: site.folder).filter { $0.contains(".before-") }
      #expect(kept.contains { $0.hasPrefix("relay.sqlite.before-") } && !kept.contains { $0.contains("work") })
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: site.folder).allSatisfy { !$0.contains("relay-work") })
    }
  }

  @Test func `a restore that is killed at any of its steps leaves the former store or the restored one, whole`()
    async throws
  {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload(Array(1...20), as: bob)
      #expect(try await Self.send(relay, to: bob.number, as: ann, 1) == 200)
      let file = site.folder + "/backup.tar"
      try await site.relay("backup", file)
      #expect(try await Self.send(relay, to: bob.number, as: ann, 2) == 200)
      // The message that was accepted last is in the log beside the database, here and at each step.
      await relay.kill9()

      var (sent, kills) = (2, 0)
      for call in ["rename", "link", "unlink"] {
        for step in 1..<30 {
          let exit = try await site.run(
            ["restore", "--replace", file], wrapper: Self.killed(beforeCall: step, of: call), within: .seconds(120)
          ).exit
          let next = try await site.serve()
          // A restored store hands no one-time key out.
          let isRestored = try await next.send("GET", "/v1/keys", as: bob).text == #"{"count":0}"#
          #expect(isRestored || exit != .code(0))
          let there = try await Self.waiting(next, bob)
          #expect(there == (isRestored ? [1] : Array(1...sent)), "\(call) \(step)")
          // As it was, and with something new.
          if isRestored {
            sent = 1
            try await next.upload(Array(1...20), as: bob)
          }
          sent += 1
          #expect(try await Self.send(next, to: bob.number, as: ann, sent) == 200)
          await next.kill9()
          if exit == .code(0) { break }
          kills += 1
        }
      }
      #expect(kills > 6, "\(kills)")
      let left = try FileManager.default.contentsOfDirectory(atPath: site.folder)
      #expect(left.allSatisfy { !$0.contains("relay-work") }, "\(left)")
    }
  }

  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `a full disk is named, and nothing is left on it`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      _ = try await relay.register()
      #expect(await relay.terminate() == .code(0))
      let file = site.folder + "/backup.tar"
      try await site.relay("backup", file)
      let place = site.folder + "/full"
      try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
      let disk = try TestDisk(at: place)
      defer { disk.remove() }
      try disk.fill()
      let elsewhere = ["RELAY_STORAGE_URL": "sqlite:\(place)/relay.sqlite"]
      for (arguments, overrides) in [(["backup", place + "/backup.tar"], [:]), (["restore", file], elsewhere)] {
        let result = try await site.run(arguments, overrides: overrides)
        let isNamed = result.errors.contains("No space is left") || result.errors.contains("disk is full")
        #expect(result.exit == .code(1) && isNamed, "\(arguments[0]): \(result.errors)")
      }
      let left = try FileManager.default.contentsOfDirectory(atPath: place)
      #expect(left.allSatisfy { $0.hasSuffix(".lock") }, "\(left)")
    }
  }

  /// Runs a command that is killed before it makes a name of a file come or go for the so-manieth time.
  private static func killed(beforeCall number: Int, of call: String) -> [String] {
    [
      "strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=\(call)", "-e",
      "inject=\(call):signal=KILL:when=\(number)",
    ]
  }

  @Test func `attachments and certificates come along, on a host that has neither`() async throws {
    try await RelayOperator.with("alpha", settings: RelayUnderTest.unlimited) { site in
      try await site.relay("ca", "init")
      try await site.relay("ca", "issue")
      let relay = try await site.serve()
      let ann = try await relay.register()
      let slot = try Self.object(try await relay.send("GET", "/v1/attachments/", as: ann).text)
      let location = try #require(slot["location"] as? String)
      let content = Data((0..<5_000).map { UInt8($0 & 0xFF) })
      #expect(try await Self.ask(.PUT, location, content).status == 200)
      let file = site.folder + "/backup.tar"
      try await site.relay("backup", file)
      #expect(await relay.terminate() == .code(0))

      try await RelayOperator.with("alpha", settings: RelayUnderTest.unlimited) { other in
        // The store's folder is not there yet, and a restore that was killed has left a part of an attachment.
        let store = ["RELAY_STORAGE_URL": "sqlite:\(other.folder)/new/relay.sqlite"]
        let blobs = FileManager.default.enumerator(atPath: site.folder + "/attachments/blobs")?.compactMap {
          $0 as? String
        }
        let blob = try #require(blobs?.first { $0.contains("/") })
        let part = URL(fileURLWithPath: "\(other.folder)/attachments/blobs/\(blob).part")
        try FileManager.default.createDirectory(
          at: part.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data("cut".utf8).write(to: part)
        let restored = try await other.run(["restore", file], overrides: store)
        #expect(!FileManager.default.fileExists(atPath: part.path))
        #expect(restored.exit == .code(0) && !restored.output.contains("No certificates"), "\(restored.errors)")
        for name in ["ca.pem", "ca.key", "leaf.pem", "leaf.key"] {
          let path = "/federation/\(name)"
          let (before, after) = (
            FileManager.default.contents(atPath: site.folder + path),
            FileManager.default.contents(atPath: other.folder + path)
          )
          #expect(before != nil && before == after, "\(name)")
        }
        let next = try await other.serve(store)
        let id = try #require(slot["id"] as? NSNumber)
        let found = try Self.object(try await next.send("GET", "/v1/attachments/\(id)", as: ann).text)
        #expect(try await Self.ask(.GET, try #require(found["location"] as? String)).body == content)
        #expect(await next.terminate() == .code(0))
      }
      // Another relay's backup is not taken for one's own.
      try await RelayOperator.with("beta") { other in
        let refused = try await other.run(["restore", file])
        #expect(refused.exit == .code(1) && refused.errors.contains("of the relay alpha"))
        #expect(!FileManager.default.fileExists(atPath: other.folder + "/relay.sqlite"))
      }
    }
  }

  @Test func `a damaged store is replaced, and the log of a store that is gone is not taken up`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let (store, files) = (site.folder + "/relay.sqlite", FileManager.default)
      let relay = try await site.serve()
      let ann = try await relay.register()
      let file = site.folder + "/backup.tar"
      try await site.relay("backup", file)
      for isGone in [false, true] {
        // What comes behind the backup is in the log when the relay is killed.
        let next = isGone ? try await site.serve() : relay
        let late = try await next.register()
        await next.kill9()
        try #require(files.fileExists(atPath: store + "-wal"))
        if isGone {
          try files.removeItem(atPath: store)
        } else {
          for suffix in ["-wal", "-shm"] { try files.removeItem(atPath: store + suffix) }
          try Data("no database".utf8).write(to: URL(fileURLWithPath: store))
        }
        let restored = try await site.run(["restore", file] + (isGone ? [] : ["--replace"]))
        #expect(restored.exit == .code(0), "\(restored.errors)")
        let kept = try files.contentsOfDirectory(atPath: site.folder).filter { $0.contains(".before-") }
        #expect(kept.count == 1 && kept[0].hasSuffix("-wal") == isGone, "\(kept)")
        let served = try await site.serve()
        #expect(try await served.send("GET", "/v1/keys", as: ann).status == 200)
        #expect(try await served.send("GET", "/v1/keys", as: late).status == 401)
        #expect(await served.terminate() == .code(0))
        for name in kept { try files.removeItem(atPath: "\(site.folder)/\(name)") }
      }
    }
  }

  @Test func `nothing is replaced by what the configured key does not open, and no backup lacks what is missing`()
    async throws
  {
    let key = ["RELAY_STORAGE_ENCRYPTION_KEY": Data(repeating: 7, count: 32).base64EncodedString()]
    let other = ["RELAY_STORAGE_ENCRYPTION_KEY": Data(repeating: 8, count: 32).base64EncodedString()]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve(key)
      let ann = try await relay.register()
      let slot = try Self.object(try await relay.send("GET", "/v1/attachments/", as: ann).text)
      let location = try #require(slot["location"] as? String)
      #expect(try await Self.ask(.PUT, location, Data("blob".utf8)).status == 200)
      #expect(await relay.terminate() == .code(0))
      let file = site.folder + "/backup.tar"
      #expect(try await site.run(["backup", file], overrides: key).exit == .code(0))
      let store = FileManager.default.contents(atPath: site.folder + "/relay.sqlite")
      for (settings, words) in [([:], "and none is configured"), (other, "is not the key")] {
        let refused = try await site.run(["restore", "--replace", file], overrides: settings)
        #expect(refused.exit == .code(1) && refused.errors.contains(words), "\(refused.errors)")
        #expect(FileManager.default.contents(atPath: site.folder + "/relay.sqlite") == store)
      }
      let elsewhere = key.merging(["RELAY_ATTACHMENTS_URL": "file:\(site.folder)/elsewhere"]) { $1 }
      let refused = try await site.run(["backup", site.folder + "/second.tar"], overrides: elsewhere)
      #expect(refused.exit == .code(1))
      #expect(refused.errors.contains("elsewhere/blobs cannot be found"), "\(refused.errors)")
      #expect(!FileManager.default.fileExists(atPath: site.folder + "/second.tar"))
      #expect(try await site.run(["restore", "--replace", file], overrides: key).exit == .code(0))
    }
  }

  @Test func `a damaged, cut or foreign file is no backup and changes nothing`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      _ = try await relay.register()
      let file = site.folder + "/backup.tar"
      try await site.relay("backup", file)
      #expect(await relay.terminate() == .code(0))
      let whole = try #require(FileManager.default.contents(atPath: file))
      let store = FileManager.default.contents(atPath: site.folder + "/relay.sqlite")

      let cut = site.folder + "/cut.tar"
      try whole.prefix(whole.count / 2).write(to: URL(fileURLWithPath: cut))
      var flipped = whole
      flipped[flipped.count / 2] ^= 0xFF
      let damaged = site.folder + "/damaged.tar"
      try flipped.write(to: URL(fileURLWithPath: damaged))
      let text = site.folder + "/text.tar"
      try Data("no archive".utf8).write(to: URL(fileURLWithPath: text))
      // A link that would lead what is unpacked behind it out of the folder.
      let trap = site.folder + "/trap.tar"
      let made = try ChildProcess.run(
        .init(
          command: [
            "sh", "-c",
            "mkdir trap && cd trap && ln -s /etc attachments && touch manifest.json relay.sqlite && tar -cf ../trap.tar *",
          ], environment: ["PATH": "/usr/bin:/bin"], folder: site.folder, standardOutput: "/dev/null",
          standardError: "/dev/null"))
      #expect(made == .code(0))
      for path in [cut, damaged, text, trap, site.folder + "/none.tar"] {
        for command in [["restore", "--replace", path], ["backup", "verify", path]] {
          let result = try await site.run(command, within: .seconds(120))
          #expect(result.exit == .code(1), "\(command): \(result.output) \(result.errors)")
        }
      }
      #expect(FileManager.default.contents(atPath: site.folder + "/relay.sqlite") == store)
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: site.folder).allSatisfy { !$0.contains("relay-work") })
    }
  }

  @Test func `for PostgreSQL it says what to run, and what is missing, without the password`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    try await RelayOperator.with(stores: .servers(storage: database, coordination: "local")) { site in
      try await site.relay("migrate", "run")
      // The database asks for no password, and libpq takes one with a colon.
      let secret = database.replacing("//relay@", with: "//relay:zq:xw@")
      try #require(secret != database)
      let told = try await site.run(["backup", "x"], overrides: ["RELAY_STORAGE_URL": secret])
      #expect(told.output.contains("pg_basebackup") && told.output.contains("pg_dump"), "\(told.errors)")
      #expect(
        told.output.contains("relay storage restored") && !told.output.contains("zq") && !told.output.contains("xw@"))
      // The servers of tests archive nothing.
      #expect(told.exit == .code(1) && told.output.contains("is not archived"))
      let rows = try await site.run(["backup", "x", "--json"])
      let report = try JSONSerialization.jsonObject(with: Data(rows.output.utf8)) as? [String: Any]
      #expect(
        (report?["checks"] as? [[String: Any]])?.isEmpty == false && (report?["files"] as? [String])?.isEmpty == false)
      let refused = try await site.run(["restore", "x"])
      #expect(refused.exit == .code(1) && refused.errors.contains("PostgreSQL"))
    }
  }
}
