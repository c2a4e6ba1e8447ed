import Crypto
import Foundation
import Logging
import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

@testable import Directory

/// A store of its own, with what a process has over it.
struct FollowerSite: Sendable {
  enum Backend: String, CaseIterable, Sendable { case embedded, postgres }

  let store: any Storage
  let signals: LocalCoordination
  let snapshotPath: String
  let log: CollectedLog
  /// Runs SQL past everything of ours; PostgreSQL only.
  let sql: @Sendable (String) async throws -> Void

  static let clock = WallClock { Timestamp(millis: Int64(Date.now.timeIntervalSince1970 * 1000)) }

  static func with(_ backend: Backend, _ body: (FollowerSite) async throws -> Void) async throws {
    try await MachineRoom.withDesk {
      let folder = FileManager.default.temporaryDirectory.appending(path: "relay-follower-\(UUID().uuidString)").path
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      // A leftover in the temporary folder must not hide why the test failed.
      defer { try? FileManager.default.removeItem(atPath: folder) }
      let store: any Storage
      let sql: @Sendable (String) async throws -> Void
      switch backend {
      case .embedded:
        store = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock)
        sql = { _ in throw TestFailure("there is no psql for SQLite") }
      case .postgres:
        let server = try await Loopback.blocking { try PostgresServer.shared() }
        let url = try await Loopback.blocking { try server.createDatabase() }
        store = try PostgresStorage(url: url, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        sql = { text in try await Loopback.blocking { _ = try server.sql(text, in: url) } }
      }
      let site = FollowerSite(
        store: store, signals: LocalCoordination(clock: clock), snapshotPath: folder + "/directory.snapshot",
        log: CollectedLog(), sql: sql)
      do {
        // A machine that starts many tests takes longer to connect than a call waits.
        try await eventually("the store answers") { (try? await store.ping()) != nil }
        try await store.migrate { _ in }
        try await body(site)
      } catch {
        await store.close()
        throw error
      }
      await store.close()
    }
  }

  /// A pace at which no test waits for what is rare.
  static var pace: DirectoryFollower.Pace {
    var pace = DirectoryFollower.Pace()
    pace.poll = .milliseconds(20)
    pace.pause = .milliseconds(1)
    pace.check = .seconds(3600)
    pace.catchUpMax = .seconds(60)
    return pace
  }

  /// Runs a follower of this store, as one process has it, while `body` runs; when it is done, the follower has
  /// stopped and written its file.
  func follow<Result>(
    _ pace: DirectoryFollower.Pace = FollowerSite.pace, part: DirectoryPartition = .whole,
    isolation: isolated (any Actor)? = #isolation, _ body: (DirectoryFollower, DirectoryView) async throws -> Result
  ) async throws -> Result {
    let view = try DirectoryView(part: part)
    let follower = DirectoryFollower(
      store: store, signals: signals, view: view, snapshotPath: snapshotPath, changesDays: 10, logger: log.logger,
      pace: pace)
    let running = Task { try await follower.run() }
    let result: Result
    do {
      try await eventually("the directory is loaded") { view.isReady }
      result = try await body(follower, view)
    } catch {
      running.cancel()
      throw error
    }
    running.cancel()
    try await running.value
    return result
  }

  // MARK: What changes

  static func number(_ index: Int) throws -> AccountNumber {
    try #require(AccountNumber(e164: "+49151\(10_000_000 + index)"))
  }

  static func token(_ index: Int) throws -> ContactToken {
    ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Data(try number(index).e164.utf8))))
  }

  /// Registers account `index`, or registers it anew.
  func register(
    _ index: Int, isActive: Bool = true, supportsSMS: Bool = false, voice: Bool = false, isDiscoverable: Bool? = nil
  ) async throws {
    let now = Self.clock.now()
    let device = Device(
      id: .master,
      password: PasswordHash(salt: [UInt8](repeating: 1, count: 16), hash: [UInt8](repeating: 2, count: 32)),
      signalingKey: Secret("key"), registrationID: 7, fetchesMessages: isActive, lastSeen: now.startOfDay, created: now)
    let registration = Registration(
      number: try Self.number(index), token: try Self.token(index), device: device, supportsSMS: supportsSMS,
      voice: voice, respectsClaims: false, isDiscoverable: isDiscoverable)
    #expect(try await store.register(registration, proof: .trusted, now: now) == .registered)
  }

  func addPeer(_ name: String) async throws -> RelayName {
    let peer = Peer(
      name: try #require(RelayName(name)), url: "https://\(name).example:8443", caCertificate: Array(name.utf8),
      state: .active, scopes: Set(Peer.Scope.allCases), added: Self.clock.now())
    #expect(try await store.savePeer(peer))
    return peer.name
  }

  func list(_ tokens: [ContactToken], at peer: RelayName, isInactive: Bool = false) async throws {
    try await store.mergeContacts(
      tokens.map { ListedAccount(token: $0, isInactive: isInactive, supportsSMS: false, voice: true) }, of: peer,
      pass: 1)
  }

  // MARK: What is expected

  /// Waits until the table shows what the store says of `tokens`, and nothing else of them.
  func expectSame(
    _ view: DirectoryView, _ tokens: [ContactToken], within limit: Duration = .seconds(60)
  ) async throws {
    let what = "the table shows what the store says of \(tokens.count) tokens"
    try await eventually(what, within: limit, every: .milliseconds(20)) {
      let stored = try await store.entries(for: tokens)
      return Set(stored.map(\.token)) == Set(tokens.filter { view.entry(of: $0) != nil })
        && stored.allSatisfy { view.directoryEntry(of: $0.token) == $0 }
    }
  }
}

extension DirectoryView {
  /// As the store would say it.
  func directoryEntry(of token: ContactToken) -> DirectoryEntry? {
    entry(of: token).map {
      DirectoryEntry(token: token, relay: name(of: $0.relay), supportsSMS: $0.supportsSMS, voice: $0.voice)
    }
  }
}

/// The log, line by line.
final class CollectedLog: Sendable {
  private let collected = Mutex<[String]>([])
  var lines: [String] { collected.withLock { $0 } }
  func contains(_ text: String) -> Bool { lines.contains { $0.contains(text) } }

  var logger: Logger {
    Logger(label: "test") { _ in Handler(log: self) }
  }

  private struct Handler: LogHandler {
    let log: CollectedLog
    var logLevel = Logger.Level.debug
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let fields = (event.metadata ?? [:]).map { "\($0)=\($1)" }.sorted().joined(separator: " ")
      log.collected.withLock { $0.append("\(event.level) \(event.message) \(fields)") }
    }
  }
}
