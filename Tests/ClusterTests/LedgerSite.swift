import ChildProcesses
import Foundation
import RelayClient
import Synchronization
import TestSupport

/// One of two peered operators that compare their ledgers: one process on an embedded store, two on servers.
final class LedgerSite: Sendable {
  let site: RelayOperator
  let cluster: Cluster?
  private let ports: [Int]
  private let relays = Mutex<[Int: RelayProcess]>([:])
  private let planted = Mutex<LedgerWord?>(nil)

  private init(_ site: RelayOperator, _ cluster: Cluster?) async throws {
    self.site = site
    self.cluster = cluster
    ports = [site.federationPort] + (cluster == nil ? [] : try Loopback.freePorts(1))
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    try await serve()
  }

  /// Starts what does not run.
  func serve() async throws {
    for (index, port) in ports.enumerated() where relays.withLock({ $0[index] == nil }) {
      let relay = try await site.serve(["RELAY_FEDERATION_PORT": "\(port)"])
      relays.withLock { $0[index] = relay }
    }
  }

  func kill9(first: Bool = false) async {
    let ended = relays.withLock { relays in
      let ended = first ? relays.filter { $0.key == 0 } : relays
      for index in ended.keys { relays[index] = nil }
      return ended
    }
    for relay in ended.values { await relay.kill9() }
  }

  /// The URL of the first process, which may just be ended.
  var url: String? { relays.withLock { $0[0]?.url } }

  func expectNothingHeld() async throws {
    try await eventually("nothing is held", within: .seconds(60), every: .milliseconds(200)) {
      try await self.site.relay("queue", "list").contains("Nothing waits")
    }
  }

  private var arguments: [String] {
    ["--peer", site.name == "alpha" ? "beta" : "alpha", "--day", LedgerClient.day]
  }

  func show() async throws -> String { try await output(arguments) }
  func json() async throws -> String {
    if let planted = planted.withLock({ $0 }) {
      return String(decoding: try JSONEncoder().encode(planted), as: UTF8.self)
    }
    return try await output(arguments + ["--json"])
  }
  func ledger() async throws -> LedgerWord {
    try JSONDecoder().decode(LedgerWord.self, from: Data(try await json().utf8))
  }
  func plant(_ word: LedgerWord) { planted.withLock { $0 = word } }

  private func output(_ arguments: [String]) async throws -> String {
    let result = try await site.run(["ledger"] + arguments)
    guard result.exit == .code(0) else { throw TestFailure("relay ledger \(result.exit): \(result.errors)") }
    return result.output
  }

  func compare(with other: LedgerSite, _ option: String...) async throws -> CommandResult {
    let files = ["ours", "theirs"].map { "\(site.folder)/\($0)-\(UUID().uuidString).json" }
    for (file, text) in zip(files, [try await json(), try await other.json()]) {
      try Data(text.utf8).write(to: URL(fileURLWithPath: file))
    }
    return try await site.run(["ledger", "compare"] + files + option)
  }

  static func withTwo(
    on stores: LossLedgerTests.Stores,
    _ body: @escaping @Sendable (_ alpha: LedgerSite, _ beta: LedgerSite) async throws -> Void
  ) async throws {
    try await with("alpha", on: stores) { alpha in
      try await with("beta", on: stores) { beta in
        let invited = try await alpha.site.relay("peer", "invite").split(separator: "\n")
        guard let word = invited.last else { throw TestFailure("no invitation") }
        try await beta.site.relay("peer", "accept", String(word))
        try await alpha.site.relay("peer", "set", "beta", "--hold", "on")
        try await beta.site.relay("peer", "set", "alpha", "--hold", "on")
        try await body(alpha, beta)
      }
    }
  }

  private static func with(
    _ name: String, on stores: LossLedgerTests.Stores, _ body: @escaping @Sendable (LedgerSite) async throws -> Void
  ) async throws {
    let run = { @Sendable (home: RelayOperator, cluster: Cluster?) in
      let site = try await LedgerSite(home, cluster)
      do {
        try await body(site)
      } catch {
        await site.kill9()
        throw error
      }
      await site.kill9()
    }
    switch stores {
    case .embedded: try await RelayOperator.with(name, settings: Cluster.unlimited) { try await run($0, nil) }
    case .servers: try await Cluster.with(name) { try await run($0.site, $0) }
    }
  }
}

/// A client that repeats what is not accepted, on the day before this one.
struct LedgerClient: Sendable {
  let site: LedgerSite
  let number: PhoneNumber
  private let client: RelayClient

  private static let millisPerDay: Int64 = 86_400_000
  /// The one day of a run, also of one that goes on past midnight.
  private static let start = (RelayClient.now() / millisPerDay - 1) * millisPerDay
  static let day = String(
    Date(timeIntervalSince1970: Double(start) / 1000).formatted(.iso8601).prefix(10))
  static func hourNumber(_ hour: Int) -> Int64 { start / 3_600_000 + Int64(hour) }

  init(at site: LedgerSite) async throws {
    self.site = site
    number = try TestDevice.freshPhoneNumber()
    guard let url = site.url else { throw TestFailure("nobody serves") }
    client = try await RelayClient(url: url).register(number).client
  }

  /// By the process that serves now.
  private func connected() throws -> RelayClient {
    guard let url = site.url else { throw TestFailure("nobody serves") }
    return try RelayClient(url: url, credentials: client.credentials)
  }

  /// Until it is accepted.
  func send(to other: LedgerClient, hour: Int, _ round: Int) async throws {
    let home = other.site.site.name
    try await eventually("message \(round) of \(hour) is accepted", within: .seconds(90), every: .milliseconds(50)) {
      await self.status(to: other.number, at: home, hour: hour, round) == 200
    }
  }

  /// - Returns: nil when nobody answered.
  func status(to destination: PhoneNumber, at relay: String, hour: Int, _ round: Int, devices: [Int] = [1]) async
    -> Int?
  {
    let messages = devices.map { OutgoingMessage(deviceID: $0, body: Array("body \(hour) \(round)".utf8)) }
    let time = Self.start + Int64(hour) * 3_600_000 + Int64(round)
    do {
      _ = try await connected().send(messages, to: destination, at: relay, timestamp: time)
      return 200
    } catch {
      return (error as? RelayClientError)?.status
    }
  }

  /// Reads and removes `count` messages.
  func acknowledge(_ count: Int) async throws {
    let messages = try await eventually("\(count) messages have arrived") {
      let page = try await connected().fetchMessages().messages.filter { $0.type != 5 }
      return page.count == count ? page : nil
    }
    for message in messages { try await connected().acknowledge(message) }
  }

  func expectReceipts(_ count: Int) async throws {
    try await eventually("\(count) receipts have arrived") {
      try await connected().fetchMessages().messages.count { $0.type == 5 } == count
    }
  }
}

/// The output of `relay ledger --json`.
struct LedgerWord: Codable, Sendable {
  struct Figure: Codable, Sendable, Equatable {
    var count: Int64
    var digest: String
  }
  struct Sent: Codable, Sendable {
    let handedOver: Figure
    let answered: Figure
    let waits: Figure
    let refused: Figure
  }
  struct Received: Codable, Sendable {
    var accepted: Figure
    let refused: Figure
  }
  struct SentKinds: Codable, Sendable {
    let messages: Sent
    let receipts: Sent
  }
  struct ReceivedKinds: Codable, Sendable {
    var messages: Received
    let receipts: Received
  }
  struct Hour: Codable, Sendable {
    let hour: Int
    let sent: SentKinds
    var received: ReceivedKinds

    func with(accepted count: Int64) -> Hour {
      var hour = self
      hour.received.messages.accepted.count = count
      return hour
    }
  }
  let format: String
  let relay: String
  let peer: String
  let day: String
  let taken: Int64
  var hours: [Hour]

  func with(hours: [Hour]) -> LedgerWord {
    var word = self
    word.hours = hours
    return word
  }
}
