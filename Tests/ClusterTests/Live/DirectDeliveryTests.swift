import RelayClient
import Synchronization
import TestSupport
import TestTags
import Testing

/// A device that is connected to one of two processes, both of which store messages for it.
@Suite(.tags(.processes)) struct DirectDeliveryTests {
  /// The connected device, and what it got, by the times that senders gave.
  private struct Recipient: Sendable {
    let number: PhoneNumber
    let taken: Taken
  }

  private final class Taken: Sendable {
    private let times = Mutex<[Int64]>([])
    var all: [Int64] { times.withLock { $0 } }
    func add(_ time: Int64) { times.withLock { $0.append(time) } }
  }

  /// A time names its lane and its place there.
  private static let lane: Int64 = 1_000_000

  @Test func `messages of its own process come without a read, and none overtakes an older one of the other process`()
    async throws
  {
    var settings = Cluster.unlimited
    // Nothing is read that nobody was woken for.
    settings["RELAY_MESSAGES_POLL_SECONDS"] = "3600"
    try await Cluster.with(settings: settings, ownPostgres: true) { cluster in
      let asked = try AskedStatements(cluster.postgres, in: cluster.database)
      try await RelayTeam.with(2, of: cluster.site) { team in
        let entrances = try team.urls.map { try RelayClient.entrance($0) }
        guard let number = PhoneNumber(TestDevice.freshNumber()), let other = PhoneNumber(TestDevice.freshNumber()),
          let sender = try await entrances[0].register(other).client.credentials
        else { throw TestFailure("no numbers") }
        let ways = entrances.map { $0.with(sender) }
        let live = try await entrances[1].register(number).connect()
        let recipient = Recipient(number: number, taken: Taken())
        let receiving = Task {
          for try await delivery in live.deliveries {
            recipient.taken.add(try delivery.message.timestamp)
            try await delivery.acknowledge()
          }
        }
        defer { receiving.cancel() }
        func isEmpty() throws -> Bool {
          let digits = number.e164.dropFirst()
          return try cluster.postgres.sql(
            "SELECT count(*) FROM messages WHERE account = \(digits)", in: cluster.database) == "0"
        }

        // The other process knows of the connection, and the backlog is read.
        try await Self.send([1], by: ways[0], to: recipient)
        try await eventually("the server logs statements") { try !asked.since("execute").isEmpty }
        try await eventually("its mailbox is empty") { try isEmpty() }

        // Its own process stores, for several senders at once.
        for round: Int64 in 1...20 {
          try await withThrowingTaskGroup(of: Void.self) { group in
            for lane: Int64 in 1...4 {
              group.addTask {
                try await Self.send(
                  (0..<3).map { lane * Self.lane + round * 10 + $0 }, by: ways[1], to: recipient)
              }
            }
            try await group.waitForAll()
          }
          // More than a few in a mailbox would be read.
          try await eventually("its mailbox is empty") { try isEmpty() }
        }
        try Self.expectNoReads(asked, appends: 20)
        let direct = try await Self.direct(at: team.process(1))
        #expect(direct > 200)

        // Both store. Each lane waits for the word accepted, and changes the process now and then.
        try await withThrowingTaskGroup(of: Void.self) { group in
          for lane: Int64 in 11...18 {
            group.addTask {
              for index: Int64 in 0..<60 {
                let way = ways[Int(index / (lane % 3 + 1)) % 2]
                try await way.send(
                  [OutgoingMessage(body: [1], type: 1)], to: number, timestamp: lane * Self.lane + index)
              }
            }
          }
          try await group.waitForAll()
        }
        try await eventually("all is delivered", within: .seconds(120)) { recipient.taken.all.count >= 241 + 480 }
        try await eventually("its mailbox is empty", within: .seconds(60)) { try isEmpty() }
        let taken = recipient.taken.all
        #expect(taken.count == 241 + 480 && Set(taken).count == taken.count)
        for lane: Int64 in 1...18 {
          let times = taken.filter { $0 / Self.lane == lane }
          #expect(times == times.sorted(), "lane \(lane)")
        }
        #expect(try await Self.direct(at: team.process(1)) > direct)

        // And then its own process alone, again.
        _ = try asked.since("execute")
        for time: Int64 in 1...10 { try await Self.send([19 * Self.lane + time], by: ways[1], to: recipient) }
        try Self.expectNoReads(asked, appends: 10)
        await live.close()
      }
    }
  }

  /// Sends one after the other, and waits until all have come.
  private static func send(_ times: [Int64], by way: RelayClient, to recipient: Recipient) async throws {
    for time in times {
      try await way.send([OutgoingMessage(body: [1], type: 1)], to: recipient.number, timestamp: time)
    }
    try await eventually("they are delivered", within: .seconds(60)) {
      Set(times).isSubset(of: recipient.taken.all)
    }
  }

  /// - Parameter appends: at least so many were made.
  private static func expectNoReads(_ asked: AskedStatements, appends: Int) throws {
    let statements = try asked.since("execute")
    #expect(statements.count { $0 == "append" } >= appends)
    // A renewed entry in Redis, or a message removed long before the word of the next append, may cost one.
    let reads = statements.count { $0 == "waiting" }
    #expect(reads <= 3, "\(reads) reads")
  }

  /// The deliveries of `process` that it did not read.
  private static func direct(at process: RelayProcess) async throws -> Int {
    let lines = try await process.ask("/metrics").text.split(separator: "\n")
    let line = lines.first { $0.hasPrefix("relay_deliveries_unread_total ") }
    return line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) } ?? 0
  }
}
