import ArgumentParser
import Federation
import Logging
import Relay
import RelayConfiguration
import RelayCore
import RelayWork
import Storage

struct QueueCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "queue", abstract: "The messages that wait for peers which cannot be reached.",
    discussion: """
      `relay peer set NAME --hold on` lets messages wait for a peer. Works on the stores while `relay serve` runs on \
      them; running processes follow within two seconds.
      """,
    subcommands: [List.self, Retry.self, Drop.self])

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "Show how much waits for each peer, or every message that waits for one.",
      discussion: "Shows neither numbers nor contents.")
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Show what waits for this peer, a line a message, oldest first.") var peer: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withStorage(configuration) { storage in
        let now = WallClock.system.now()
        if let peer {
          try show(try await messages(for: try await known(peer, storage), storage, now))
        } else {
          try show(try await storage.outboxUsage().map { WaitingRow($0, at: now) })
        }
      }
    }

    /// Read in pages: the bodies of no more than one are in memory.
    private func messages(for relay: RelayName, _ storage: any Storage, _ now: Timestamp) async throws -> [MessageRow] {
      var rows: [MessageRow] = []
      while true {
        let page = try await storage.held(for: relay, after: rows.last?.id ?? 0, limit: Self.pageMax)
        if page.isEmpty { return rows }
        rows += page.map { MessageRow($0, at: now) }
      }
    }

    private func show(_ rows: [WaitingRow]) throws {
      if json { return try Output.json(rows) }
      if rows.isEmpty { return Output.line("Nothing waits for any peer.") }
      Output.table(
        [["PEER", "MESSAGES", "BYTES", "OLDEST", "NEXT ATTEMPT"]]
          + rows.map { ["\($0.peer)", "\($0.messages)", "\($0.bytes)", age($0.oldestSeconds), $0.nextAttempt] })
    }

    private func show(_ rows: [MessageRow]) throws {
      if json { return try Output.json(rows) }
      if rows.isEmpty { return Output.line("Nothing waits for this peer.") }
      Output.table(
        [["ID", "AGE", "BYTES", "ATTEMPTS", "NEXT ATTEMPT"]]
          + rows.map { ["\($0.id)", age($0.ageSeconds), "\($0.bytes)", "\($0.attempts)", $0.nextAttempt] })
    }

    private static let pageMax = 500
  }

  struct Retry: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "retry",
      abstract: "Let everything that waits for a peer be tried at once.",
      discussion: "A peer that cannot be reached is tried when it can be, as always.")
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "The peer's name.") var peer: String

    func run() async throws {
      try await withStorage(configuration, noting: AuditNote("queue retry", on: peer)) { storage in
        let count = try await storage.makeDue(for: try await known(peer, storage), now: WallClock.system.now())
        Output.line(count == 0 ? "Nothing waits for \(peer)." : "\(messages(count)) for \(peer) will be tried now.")
      }
    }
  }

  struct Drop: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "drop",
      abstract: "Give messages up that wait for a peer.",
      discussion: """
        Each sender's devices are told that the message cannot be delivered, unless their mailboxes are full. Repeating it \
        is safe.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "The peer's name.") var peer: String
    @Option(help: "A message's id, as `relay queue list --peer` shows it; may be given more than once.")
    var id: [Int64] = []
    @Flag(help: "Everything that waits for the peer.") var all = false

    func validate() throws {
      guard all == id.isEmpty else { throw ValidationError("Give --id, or --all for everything.") }
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      try await withStorage(settings, noting: AuditNote("queue drop", on: peer)) { storage in
        let relay = try await known(peer, storage)
        let ledger = try await HandOverLedger.open(storage, clock: .system)
        let outcome = try await drop(
          OutboxDrop(store: storage, intake: intake(settings, storage), ledger: ledger), relay)
        // Their devices may be connected to any process.
        try await storage.noteMissedWakeUps()
        Output.line(
          "\(messages(outcome.dropped)) for \(relay) given up; their senders have been told where they had room.")
        guard outcome.unknown.isEmpty else {
          let ids = outcome.unknown.sorted().map(String.init).joined(separator: ", ")
          throw CommandFailure("Not among what waits for \(relay): \(ids). `relay queue list --peer` shows the ids.")
        }
      }
    }

    private func drop(_ drop: OutboxDrop, _ relay: RelayName) async throws -> OutboxDrop.Outcome {
      let deadline = ContinuousClock.now + Self.patience
      while true {
        do throws(Problem) {
          let outcome = try await drop.drop(all ? nil : Set(id), of: relay) { count in
            if count > 0 { Output.note("\(count) given up") }
          }
          if let outcome { return outcome }
        } catch {
          throw CommandFailure(
            "Not all of it was done: \(error.reason ?? error.kind.text). Repeating the command goes on where it ended.")
        }
        guard ContinuousClock.now < deadline else {
          throw CommandFailure(
            "A process is just handing messages over to \(relay): try again, or `relay peer suspend \(relay)` first.")
        }
        guard await Pause.for(.milliseconds(500)) else { throw CancellationError() }
      }
    }

    /// A process that died while it handed over is in the way for ten seconds.
    private static let patience = Duration.seconds(20)

    /// Only ever queues notices: limits, and signals of changed accounts, play no part.
    private func intake(_ settings: RelayConfiguration, _ storage: any Storage) -> LocalIntake {
      LocalIntake(
        store: storage,
        accounts: AccountCache(store: storage, bus: LocalCoordination(buckets: settings.limits, clock: .system)),
        quota: MailboxQuota(
          store: storage, bounds: settings.messages.bounds),
        watch: nil, clock: JudgedClock(unjudged: .system))
    }
  }

  private struct WaitingRow: Encodable {
    let peer: String
    let messages: Int
    let bytes: Int64
    let oldestSeconds: Int64
    let nextAttempt: String

    init(_ usage: OutboxUsage, at now: Timestamp) {
      peer = usage.relay.text
      messages = usage.messages
      bytes = usage.bytes
      oldestSeconds = seconds(from: usage.oldest, to: now)
      nextAttempt = when(usage.nextAttempt, now)
    }
  }

  private struct MessageRow: Encodable {
    let id: Int64
    let ageSeconds: Int64
    let bytes: Int
    let attempts: Int
    let nextAttempt: String

    init(_ held: HeldMessage, at now: Timestamp) {
      id = held.sequence
      ageSeconds = seconds(from: held.accepted, to: now)
      bytes = held.message.byteCount
      attempts = held.attempts
      nextAttempt = when(held.notBefore, now)
    }
  }
}

private func known(_ name: String, _ storage: any Storage) async throws -> RelayName {
  guard let peer = try await storage.peers().first(where: { $0.name.text == name }) else {
    throw CommandFailure("There is no peer \"\(name)\": `relay peer list` shows them all.")
  }
  return peer.name
}

private func messages(_ count: Int) -> String { count == 1 ? "1 message" : "\(count) messages" }

private func seconds(from past: Timestamp, to now: Timestamp) -> Int64 { max(0, now.millis - past.millis) / 1000 }

/// A due message goes as soon as its peer can be reached.
private func when(_ time: Timestamp, _ now: Timestamp) -> String { time <= now ? "now" : time.iso8601 }

/// `3d 4h`, `4h 5m`, `5m 6s`, `6s`.
private func age(_ seconds: Int64) -> String {
  let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60)
  if days > 0 { return "\(days)d \(hours)h" }
  if hours > 0 { return "\(hours)h \(minutes)m" }
  return minutes > 0 ? "\(minutes)m \(seconds % 60)s" : "\(seconds)s"
}
