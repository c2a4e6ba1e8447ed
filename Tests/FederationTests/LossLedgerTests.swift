import Foundation
import RelayCore
import TestTags
import Testing

@testable import Federation

@Suite(.tags(.stores)) struct LossLedgerTests {
  private static let day = "2026-11-22"

  /// A file of `hours` of messages: the marks that were handed over, answered, refused by the peer, and accepted from
  /// it.
  private func file(
    _ relay: String, of peer: String, day: String = day, taken: Int64 = .max,
    _ hours: [Int32: [LedgerRecord.Event: [UInt64]]], kind: Crossing.Kind = .message
  ) throws -> LedgerFile {
    let day = try #require(LedgerDay(day))
    let entries = hours.flatMap { hour, events in
      events.map { event, marks in
        LedgerEntry(
          hour: day.start.adding(hours: hour), kind: kind, event: event,
          sum: LedgerSum(count: Int64(marks.count), digest: marks.reduce(0, &+)))
      }
    }
    return LedgerFile(
      relay: try name(relay), peer: try name(peer), day: day, entries: entries, taken: Timestamp(millis: taken))
  }

  private func compare(
    sent: [LedgerRecord.Event: [UInt64]], accepted: [UInt64]
  ) throws -> LedgerComparison.Finding? {
    let ours = try file("alpha", of: "beta", [9: sent])
    let theirs = try file("beta", of: "alpha", [9: [.accepted: accepted]])
    let forth = try LedgerComparison(ours, theirs)
    let back = try LedgerComparison(theirs, ours)
    #expect(forth.difference == back.difference)
    return forth.difference?.finding
  }

  @Test func `the accepted messages are the answered ones, with or without the waiting ones`() throws {
    let sent: [LedgerRecord.Event: [UInt64]] = [
      .handedOver: [1, 2, .max, 9, 5], .answered: [1, 2, .max], .refused: [9],
    ]
    #expect(try compare(sent: sent, accepted: [.max, 2, 1]) == nil)
    #expect(try compare(sent: sent, accepted: [5, .max, 2, 1]) == nil, "its answer was lost")
    #expect(try compare(sent: sent, accepted: [1, 2]) == .missing)
    #expect(try compare(sent: sent, accepted: [1, 2, .max, 9, 5]) == .surplus)
    #expect(try compare(sent: sent, accepted: [1, 2, 2]) == .others, "one lost, one doubled")
    #expect(try compare(sent: sent, accepted: [1, 2, .max, .max]) == .others)
    #expect(try compare(sent: [:], accepted: [1]) == .surplus)
    #expect(try compare(sent: [.handedOver: [1, 2, 3], .answered: [1]], accepted: [1, 3]) == .unsettled)
    #expect(try compare(sent: [:], accepted: []) == nil)
  }

  @Test func `the first hour that differs is named, with its direction and kind`() throws {
    let sent: [LedgerRecord.Event: [UInt64]] = [.handedOver: [1, 2], .answered: [1, 2]]
    let ours = try file(
      "alpha", of: "beta", [8: sent, 14: sent.merging([.accepted: [7]]) { $1 }, 23: sent], kind: .receipt)
    let theirs = try file(
      "beta", of: "alpha",
      [8: [.accepted: [1, 2]], 14: [.accepted: [1, 2], .handedOver: [7, 8], .answered: [7, 8]], 23: [:]],
      kind: .receipt)
    let difference = try #require(try LedgerComparison(ours, theirs).difference)
    #expect(difference.hour == 14 && difference.kind == "receipts" && difference.finding == .missing)
    #expect(difference.from == "beta" && difference.to == "alpha")
    #expect(difference.handedOver == 2 && difference.accepted == 1 && !difference.isUnderWay)
  }

  @Test func `an hour that was not over is told as such`() throws {
    let start = Int64(try #require(LedgerDay(Self.day)).start.number) * 3_600_000
    for (taken, isUnderWay) in [(start + 10 * 3_600_000, false), (start + 10 * 3_600_000 - 1, true)] {
      let ours = try file("alpha", of: "beta", taken: taken, [9: [.handedOver: [1], .answered: [1]]])
      let theirs = try file("beta", of: "alpha", [:])
      #expect(try LedgerComparison(ours, theirs).difference?.isUnderWay == isUnderWay)
    }
  }

  @Test func `files that say nothing of each other are refused`() throws {
    let ours = try file("alpha", of: "beta", [:])
    func mismatch(_ other: LedgerFile) -> LedgerComparison.Mismatch? {
      do throws(LedgerComparison.Mismatch) {
        _ = try LedgerComparison(ours, other)
        return nil
      } catch {
        return error
      }
    }
    #expect(mismatch(try file("beta", of: "alpha", [:])) == nil)
    #expect(mismatch(try file("beta", of: "alpha", day: "2026-11-21", [:])) == .days("2026-11-22", "2026-11-21"))
    #expect(mismatch(ours) == .sameRelay("alpha"))
    #expect(mismatch(try file("beta", of: "gamma", [:])) == .strangers("alpha with beta", "beta with gamma"))
    #expect(mismatch(try file("gamma", of: "alpha", [:])) == .strangers("alpha with beta", "gamma with alpha"))
  }

  @Test(arguments: [Int64.max, .min, 1 << 49])
  func `a file whose figures would overflow a sum is refused`(count: Int64) throws {
    let ours = try file("alpha", of: "beta", [9: [.handedOver: [1, 2], .answered: [1, 2]]])
    let theirs = try file("beta", of: "alpha", [9: [.accepted: [1, 2]]])
    let written = String(decoding: try JSONEncoder().encode(theirs), as: UTF8.self)
    let altered = written.replacing("\"count\":2", with: "\"count\":\(count)")
    #expect(altered != written)
    let read = try JSONDecoder().decode(LedgerFile.self, from: Data(altered.utf8))
    #expect(throws: LedgerComparison.Mismatch.self) { try LedgerComparison(ours, read) }
    #expect(throws: LedgerComparison.Mismatch.self) { try LedgerComparison(read, ours) }
  }

  @Test func `days are those of the calendar`() throws {
    #expect(LedgerDay("1970-01-01")?.start == LedgerHour(number: 0))
    #expect(LedgerDay("2026-11-22")?.start == LedgerHour(number: 20_779 * 24))
    #expect(LedgerDay("2024-02-29")?.start == LedgerHour(number: 19_782 * 24))
    for text in ["", "2026-11-31", "2025-02-29", "2026-1-01", "26-11-22", "2026-11-22T", "2026-00-10", "+026-11-22"] {
      #expect(LedgerDay(text) == nil, "\(text)")
    }
  }

  @Test func `a mark is equal for what is submitted again, and for nothing else`() throws {
    let ledger = HandOverLedger(
      store: MemoryHandOvers(), key: SecretBytes([UInt8](repeating: 1, count: 32)), clock: TestRelay.systemClock)
    func marks(
      _ body: [UInt8], at time: Int64 = 5, from: String = "+14155550111", device: Int64 = 1, peer: String = "beta",
      type: MessageType = .ciphertext, ledger: HandOverLedger = ledger
    ) throws -> [CrossingMark] {
      let messages = try [1, 2].map { id in
        SubmittedMessage(
          type: type, device: try #require(DeviceID(id)), registrationID: id, body: body, content: nil)
      }
      let source = DeviceAddress(try number(from), try #require(DeviceID(device)))
      let submission = Submission(
        destination: try number("+14155550177"), messages: messages, timestamp: Timestamp(millis: time))
      return ledger.crossings(of: .message(submission, source: source), to: try name(peer)).map(\.mark)
    }
    let first = try marks([1])
    #expect(Set(first).count == 2)
    #expect(try marks([1]) == first && marks([1], type: .preKeyBundle) == first)
    let stranger = HandOverLedger(
      store: MemoryHandOvers(), key: SecretBytes([UInt8](repeating: 2, count: 32)), clock: TestRelay.systemClock)
    let others = try [
      marks([2]), marks([1], at: 6), marks([1], from: "+14155550112"), marks([1], device: 2), marks([1], peer: "gamma"),
      marks([1], ledger: stranger),
    ]
    #expect(Set(others.joined()).isDisjoint(with: first) && Set(others.joined()).count == 12)
    #expect(try marks([1], at: 0).isEmpty, "no time, no hour")
  }

  @Test func `an hour is that of the time that was sent, however far off it is`() {
    #expect(LedgerHour(of: Timestamp(millis: 0)).number == 0)
    #expect(LedgerHour(of: Timestamp(millis: 3_599_999)).number == 0)
    #expect(LedgerHour(of: Timestamp(millis: -1)).number == -1)
    #expect(LedgerHour(of: Timestamp(millis: .max)).number == .max)
    #expect(LedgerHour(of: Timestamp(millis: .min)).number == .min)
  }

  @Test func `marks of a request of its own are read as they were written, or not at all`() {
    let crossings = [Int64.min, -1, 0, 77].map {
      Crossing(CrossingMark(bits: $0), of: .message, at: Timestamp(millis: 1))
    }
    let text = CrossingMarks.text(crossings)
    #expect(CrossingMarks.read(text, count: 4) == crossings.map(\.mark))
    #expect(CrossingMarks.read(text, count: 3).isEmpty && CrossingMarks.read(nil, count: 1).isEmpty)
    #expect(CrossingMarks.text([]) == nil)
    for broken in ["", "000000000000000g", "+000000000000001", "-000000000000000", "00000000000000001"] {
      #expect(CrossingMarks.read(broken, count: 1).isEmpty, "\(broken)")
    }
  }
}
