import ChildProcesses
import Foundation
import RelayClient
import Synchronization
import TestSupport
import TestTags
import Testing

/// Two operators count what crosses between them, and compare what they counted.
@Suite(.tags(.time)) struct LossLedgerTests {
  enum Stores: String, CaseIterable, Sendable { case embedded, servers }

  @Test(arguments: Stores.allCases)
  func `both ledgers agree after an outage, refusals, repeats and kills; a loss shows in its hour`(
    stores: Stores
  ) async throws {
    try await LedgerSite.withTwo(on: stores) { alpha, beta in
      let ann = try await LedgerClient(at: alpha)
      let bob = try await LedgerClient(at: beta)
      try await exchange(ann, bob)
      try await refuse(ann, bob, alpha, beta)
      try await outage(ann, bob, alpha, beta)
      try await kill(ann, bob, alpha, beta)
      try await expectEqual(alpha, beta)
      try await expectNothingToldOf([ann, bob], by: alpha, beta)
      try await loss(alpha, beta)
    }
  }

  /// Hour 10: both ways, each twice, and receipts for all of them.
  private func exchange(_ ann: LedgerClient, _ bob: LedgerClient) async throws {
    for round in 0..<10 {
      for (one, other) in [(ann, bob), (bob, ann)] {
        for _ in 0..<2 { try await one.send(to: other, hour: 10, round) }
      }
    }
    try await ann.acknowledge(10)
    try await bob.acknowledge(10)
    for client in [ann, bob] { try await client.expectReceipts(10) }
    let hour = try #require(try await ann.site.ledger().hours.first { $0.hour == 10 })
    #expect(hour.sent.messages.answered.count == 10 && hour.sent.messages.waits.count == 0)
    try await eventually("receipts are counted") {
      let hour = try #require(try await ann.site.ledger().hours.first { $0.hour == 10 })
      return hour.sent.receipts.answered.count == 10 && hour.received.receipts.accepted.count == 10
    }
    #expect(hour.received.messages.accepted.count == 10 && hour.sent.messages.refused.count == 0)
  }

  /// Hour 11: to nobody, and to a device that there is not.
  private func refuse(
    _ ann: LedgerClient, _ bob: LedgerClient, _ alpha: LedgerSite, _ beta: LedgerSite
  ) async throws {
    let nobody = try TestDevice.freshPhoneNumber()
    #expect(await ann.status(to: nobody, at: "beta", hour: 11, 0) == 404)
    #expect(await ann.status(to: bob.number, at: "beta", hour: 11, 1, devices: [1, 2]) == 409)
    try await ann.send(to: bob, hour: 11, 1)
    try await eventually("refusals are counted on both sides") {
      guard let there = try await beta.ledger().hours.first(where: { $0.hour == 11 }),
        let here = try await alpha.ledger().hours.first(where: { $0.hour == 11 })
      else { return false }
      let sent = here.sent.messages
      // The message for device 1 is the same in both tries: the one that is accepted in the end.
      return sent.refused.count == 3 && sent.answered.count == 1 && sent.waits.count == 0
        && there.received.messages.accepted.count == 1 && there.received.messages.refused.count == 3
    }
  }

  /// Hour 12: the peer is killed, messages wait, this side is killed too, and all of them arrive.
  private func outage(
    _ ann: LedgerClient, _ bob: LedgerClient, _ alpha: LedgerSite, _ beta: LedgerSite
  ) async throws {
    await beta.kill9()
    for round in 0..<8 { try await ann.send(to: bob, hour: 12, round) }
    let waiting = try #require(try await alpha.ledger().hours.first { $0.hour == 12 }).sent.messages
    #expect(waiting.handedOver.count == 8 && waiting.waits.count == 8 && waiting.waits == waiting.handedOver)
    await alpha.kill9()
    try await alpha.serve()
    for round in 8..<12 { try await ann.send(to: bob, hour: 12, round) }
    try await beta.serve()
    try await alpha.expectNothingHeld()
    let arrived = try #require(try await alpha.ledger().hours.first { $0.hour == 12 }).sent.messages
    #expect(arrived.handedOver.count == 12 && arrived.answered.count == 12 && arrived.waits.count == 0)
  }

  /// Hour 13: processes of both sides are killed while messages are under way, whose senders repeat what is not
  /// answered.
  private func kill(
    _ ann: LedgerClient, _ bob: LedgerClient, _ alpha: LedgerSite, _ beta: LedgerSite
  ) async throws {
    let sent = Progress()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for writer in 0..<4 {
        group.addTask {
          for round in 0..<40 {
            try await ann.send(to: bob, hour: 13, writer * 1000 + round)
            sent.add()
            try await bob.send(to: ann, hour: 13, writer * 1000 + round)
          }
        }
      }
      group.addTask {
        for (index, site) in [alpha, beta, alpha, beta].enumerated() {
          try await eventually("traffic goes on", within: .seconds(60)) { sent.count >= 20 * (index + 1) }
          await site.kill9(first: true)
          try await site.serve()
        }
      }
      try await group.waitForAll()
    }
    try await alpha.expectNothingHeld()
    try await beta.expectNothingHeld()
    let there = try #require(try await beta.ledger().hours.first { $0.hour == 13 })
    #expect(there.received.messages.accepted.count == 160)
  }

  private final class Progress: Sendable {
    private let done = Mutex(0)
    var count: Int { done.withLock { $0 } }
    func add() { done.withLock { $0 += 1 } }
  }

  private func expectEqual(_ alpha: LedgerSite, _ beta: LedgerSite) async throws {
    let result = try await eventually("the ledgers agree", within: .seconds(30)) {
      let result = try await alpha.compare(with: beta)
      return result.exit == .code(0) ? result : nil
    }
    #expect(result.output.hasPrefix("equal: "), "\(result.output)")
    #expect(result.output.contains("alpha to beta: 183 messages, 10 receipts"), "\(result.output)")
    #expect(result.output.contains("beta to alpha: 170 messages, 10 receipts"), "\(result.output)")
    #expect(try await beta.compare(with: alpha).exit == .code(0))
  }

  private func expectNothingToldOf(_ clients: [LedgerClient], by sites: LedgerSite...) async throws {
    for site in sites {
      let text = try await site.show() + site.json()
      for client in clients {
        #expect(!text.contains(client.number.e164.dropFirst()), "a number")
        #expect(!text.contains("body"))
      }
      #expect(text.contains("HANDED OVER") && text.contains("10:00"))
    }
  }

  /// A crossing that is taken out of the receiver's books, or out of its file, is missed in its hour.
  private func loss(_ alpha: LedgerSite, _ beta: LedgerSite) async throws {
    switch beta.cluster {
    case let cluster?:
      let (postgres, database, hour) = (cluster.postgres, cluster.database, LedgerClient.hourNumber(12))
      _ = try await Loopback.blocking {
        try postgres.sql(
          """
          UPDATE loss_ledger SET crossings = crossings - 1, low = low - 7 WHERE ctid IN (
            SELECT ctid FROM loss_ledger WHERE event = 3 AND kind = 0 AND hour = \(hour) ORDER BY crossings DESC LIMIT 1)
          """, in: database)
      }
    case nil:
      let hours = try await beta.ledger().hours.map { hour in
        hour.hour == 12 ? hour.with(accepted: hour.received.messages.accepted.count - 1) : hour
      }
      beta.plant(try await beta.ledger().with(hours: hours))
    }
    let result = try await alpha.compare(with: beta)
    #expect(result.exit == .code(1))
    #expect(result.output.contains("12:00 to 13:00 UTC, messages from alpha to beta"), "\(result.output)")
    #expect(result.output.contains("alpha handed over 12: 12 answered, 0 wait, 0 refused."), "\(result.output)")
    #expect(result.output.contains("beta accepted 11.") && result.output.contains("1 messages that beta answered"))
    let json = try await alpha.compare(with: beta, "--json").json(Report.self)
    #expect(json.difference.hour == 12 && json.difference.finding == "missing" && !json.isEqual)
  }

  private struct Report: Decodable {
    struct Difference: Decodable {
      let hour: Int
      let finding: String
    }
    let isEqual: Bool
    let difference: Difference
  }

  @Test func `a wrong day, peer or file is named`() async throws {
    try await RelayOperator.with("alpha") { site in
      func failure(_ arguments: String...) async throws -> CommandResult { try await site.run(["ledger"] + arguments) }
      let unknown = try await failure("--peer", "beta", "--day", "2026-11-22")
      #expect(unknown.exit == .code(1) && unknown.errors.contains("relay peer list"), "\(unknown.errors)")
      let day = try await failure("--peer", "beta", "--day", "2026-11-31")
      #expect(day.exit == .code(64) && day.errors.contains("2026-11-22"), "\(day.errors)")
      let file = site.folder + "/not-a-ledger.json"
      try Data("[]".utf8).write(to: URL(fileURLWithPath: file))
      let broken = try await failure("compare", file, file)
      #expect(broken.exit == .code(1) && broken.errors.contains("is no ledger"), "\(broken.errors)")
      let missing = try await failure("compare", file + ".none", file)
      #expect(missing.exit == .code(1) && missing.errors.contains("cannot be read"), "\(missing.errors)")
    }
  }
}
