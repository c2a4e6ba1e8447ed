// The directory in the memory of several processes: what is done at one is found at the others.

import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes), .serialized) struct DirectoryAcrossTests {
  /// The promise is a second; the bounds leave room for a machine that runs everything at once.
  private static let limit = Duration.seconds(30)

  @Test func `a registration is found on the other process, and a removal too, with Redis and without`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let (one, two) = (relays[0], relays[1])
        let caller = try await two.register()
        for isShared in [true, false] {
          if !isShared { cluster.redis.stop() }
          let number = TestDevice.freshNumber()
          #expect(try await two.finds(number, as: caller) == false)
          _ = try await one.register(number)
          // A process finds the account that just registered at it at once.
          #expect(try await one.finds(number, as: caller))
          try await eventually("found on the other process", within: Self.limit) {
            try await two.finds(number, as: caller)
          }
          _ = try await one.register(number, attributes: #","discoverableByPhoneNumber":false"#)
          try await eventually("not found any more", within: Self.limit) {
            try await !two.finds(number, as: caller)
          }
        }
      }
    }
  }

  @Test func `a peer's contacts come and go on every process`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let callers = [try await relays[0].register(), try await relays[1].register()]
        let numbers = (0..<50).map { _ in TestDevice.freshNumber() }
        let tokens = try numbers.map { try Self.hexadecimal($0) }
        try await cluster.psql(
          """
          INSERT INTO peers (name, url, ca_certificate, state, scopes, added)
          VALUES ('elsewhere', 'https://elsewhere.example:9443', '\\x01', 'active', 'directory', 0);
          INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
          SELECT 'elsewhere', decode(token, 'hex'), false, false, 1
          FROM unnest(string_to_array('\(tokens.joined(separator: ","))', ',')) AS token
          """)
        for (state, isFound) in [("active", true), ("suspended", false), ("active", true), ("removed", false)] {
          try await cluster.psql(
            state == "removed"
              ? "DELETE FROM peers" : "UPDATE peers SET state = '\(state)' WHERE state <> '\(state)'")
          for (relay, caller) in zip(relays, callers) {
            try await eventually("with the peer \(state)", within: Self.limit) {
              try await relay.found(numbers, as: caller) == (isFound ? numbers.count : 0)
            }
          }
        }
      }
    }
  }

  @Test func `killed and started again, a process has the directory from its file, and what it missed`() async throws {
    try await Cluster.with { cluster in
      // The file of one process, which comes and goes; the other one stays.
      let snapshot = cluster.site.folder + "/some/where/directory.snapshot"
      let own = ["RELAY_DIRECTORY_SNAPSHOT": snapshot]
      let early = TestDevice.freshNumber()
      try await cluster.serve(1) { relays in
        let caller = try await relays[0].register()
        _ = try await relays[0].register(early)
        // A process that read the store writes the file at once.
        let first = try await cluster.site.serve(own)
        try await eventually("the file is written") { FileManager.default.fileExists(atPath: snapshot) }
        #expect(first.log().contains("from=store"))
        await first.kill9()

        let late = TestDevice.freshNumber()
        _ = try await relays[0].register(late)
        let second = try await cluster.site.serve(own)
        #expect(second.log().contains("from=file"), "\(second.log().suffix(2000))")
        #expect(try await second.found([early, late], as: caller) == 2)
        await second.kill9()

        // Half of it, as a full disk leaves it.
        let whole = try Data(contentsOf: URL(fileURLWithPath: snapshot))
        try whole.prefix(whole.count / 2).write(to: URL(fileURLWithPath: snapshot))
        let third = try await cluster.site.serve(own)
        #expect(third.log().contains("the directory's file is not used"))
        #expect(third.log().contains("from=store"))
        #expect(try await third.found([early, late], as: caller) == 2)
        #expect(await third.terminate() == .code(0))
        #expect(try Data(contentsOf: URL(fileURLWithPath: snapshot)).count >= whole.count)
      }
    }
  }

  @Test func `PostgreSQL away: the directory goes on answering, says how old it is, and follows again`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      try await cluster.serve(1) { relays in
        let relay = relays[0]
        let caller = try await relay.register()
        let known = try await relay.register().number
        #expect(try await relay.finds(known, as: caller))
        try await Loopback.blocking { try cluster.postgres.stop() }
        // The caller is known from before.
        #expect(try await relay.finds(known, as: caller))
        try await eventually("it says how old the directory is") {
          try await relay.metric("relay_directory_lag_seconds") ?? 0 > 2
        }
        try await Loopback.blocking { try cluster.postgres.start() }
        try await eventually("the relay is ready again") { await relay.readyz()?.status == 200 }
        let late = try await relay.register().number
        try await eventually("what came since is found", within: Self.limit) {
          try await relay.finds(late, as: caller)
        }
        try await eventually("it is current again", within: Self.limit) {
          try await relay.metric("relay_directory_lag_seconds") ?? 9 < 2
        }
        try await eventually("it says how many there are", within: Self.limit) {
          try await relay.metric("relay_directory_entries") == 3
        }
        #expect(try await relay.metric("relay_directory_drift_total") == 0)
        let log = relay.log()
        #expect(log.ranges(of: "the directory cannot follow the store").count == 1, "\(log.suffix(2000))")
        #expect(log.ranges(of: "the directory follows the store again").count == 1, "\(log.suffix(2000))")
      }
    }
  }

  /// The token as PostgreSQL writes bytes.
  private static func hexadecimal(_ number: String) throws -> String {
    let token = ContactTokens.token(for: try #require(PhoneNumber(number)))
    let bytes = try #require(Data(base64Encoded: token + "=="))
    return bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }
}

extension Cluster {
  /// Runs SQL past the relays.
  fileprivate func psql(_ text: String) async throws {
    try await Loopback.blocking { _ = try postgres.sql(text, in: database) }
  }
}

extension RelayProcess {
  /// Whether a look-up of `number` finds it.
  fileprivate func finds(_ number: String, as caller: TestDevice) async throws -> Bool {
    try await found([number], as: caller) == 1
  }

  /// How many of `numbers` a look-up finds.
  fileprivate func found(_ numbers: [String], as caller: TestDevice) async throws -> Int {
    let tokens = try numbers.map { "\"\(ContactTokens.token(for: try #require(PhoneNumber($0))))\"" }
    let json = #"{"contacts":[\#(tokens.joined(separator: ","))]}"#
    let answer = try await send("PUT", "/v1/directory/tokens", json: json, as: caller)
    guard answer.status == 200 else { throw TestFailure("a look-up: \(answer.status) \(answer.text)") }
    return answer.list("contacts").count
  }

  /// The value of a metric without labels.
  fileprivate func metric(_ name: String) async throws -> Double? {
    let lines = try await ask("/metrics").text.split(separator: "\n")
    return lines.first { $0.hasPrefix(name + " ") }.flatMap { Double($0.dropFirst(name.count + 1)) }
  }
}
