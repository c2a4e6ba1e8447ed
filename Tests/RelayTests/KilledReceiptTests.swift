import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// A message leaves its mailbox with its receipt, however the process ends that removes it.
@Suite(.tags(.processes)) struct KilledReceiptTests {
  private static let roundsMax = 8
  private static let messagesMax = 20

  @Test func `a relay on embedded stores is killed among acknowledgements: each sender is told`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { try await Self.killAgainAndAgain($0) }
  }

  @Test func `a relay on PostgreSQL is killed among acknowledgements: each sender is told`() async throws {
    try await Cluster.with(settings: RelayUnderTest.unlimited) { try await Self.killAgainAndAgain($0.site) }
  }

  private static func killAgainAndAgain(_ site: RelayOperator) async throws {
    var relay = try await site.serve()
    do {
      let (sender, recipient) = (try await relay.registerLive(), try await relay.registerLive())
      var removed = 0
      for round in 0..<roundsMax {
        let first = Int64(1000 * (round + 1))
        let times = first..<first + Int64(messagesMax)
        for time in times { try await relay.sendText(time, from: sender, to: recipient) }
        if round.isMultiple(of: 2) {
          // Removals gather for some milliseconds: it dies before, among and behind them.
          try await acknowledgeLive(times, as: recipient, at: relay)
          try await Task.sleep(for: .milliseconds(4 * round))
          await relay.kill9()
        } else {
          await acknowledge(times, from: sender, as: recipient, killing: relay, behind: 2 * round)
        }
        relay = try await site.serve()
        removed += try await expectReceipts(of: times, from: sender, to: recipient, at: relay)
      }
      #expect(removed > 0, "no process died behind a removal")
    } catch {
      await relay.kill9()
      throw error
    }
    #expect(await relay.terminate() == .code(0))
  }

  private static func acknowledgeLive(_ times: Range<Int64>, as recipient: LiveDevice, at relay: RelayProcess)
    async throws
  {
    let socket = try await relay.open(recipient)
    #expect(try await socket.acknowledging(times.count) == Array(times))
  }

  /// Kills `relay` when `count` requests were answered, among the others.
  private static func acknowledge(
    _ times: Range<Int64>, from sender: LiveDevice, as recipient: LiveDevice, killing relay: RelayProcess,
    behind count: Int
  ) async {
    await withTaskGroup(of: Void.self) { group in
      for time in times {
        group.addTask {
          // A request that the killed process leaves without an answer may have been carried out or not.
          _ = try? await relay.send("DELETE", "/v1/messages/\(sender.number)/\(time)", as: recipient.device)
        }
      }
      for _ in 0..<count { await group.next() }
      await relay.kill9()
    }
  }

  /// Expects of each message that it waits still, or that its sender has one receipt for it; and removes all.
  /// - Returns: how many were removed before.
  private static func expectReceipts(
    of times: Range<Int64>, from sender: LiveDevice, to recipient: LiveDevice, at relay: RelayProcess
  ) async throws -> Int {
    func shown(_ device: LiveDevice) async throws -> [Int64] {
      try await relay.mailbox(of: device.device).compactMap { Shown($0).timestamp }
    }
    let waiting = try await shown(recipient)
    let receipts = try await shown(sender)
    #expect(Set(receipts).count == receipts.count)
    #expect(Set(receipts) == Set(times).subtracting(waiting))
    // What waits still is acknowledged now.
    for time in waiting {
      let answer = try await relay.send("DELETE", "/v1/messages/\(sender.number)/\(time)", as: recipient.device)
      #expect(answer.status == 200)
    }
    let all = try await shown(sender)
    #expect(all.sorted() == Array(times))
    for time in all {
      let answer = try await relay.send("DELETE", "/v1/messages/\(recipient.number)/\(time)", as: sender.device)
      #expect(answer.status == 200)
    }
    #expect(try await shown(sender).isEmpty)
    return receipts.count
  }
}
