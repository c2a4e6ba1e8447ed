import TestSupport
import TestTags
import Testing

/// The proof that nothing is lost must itself notice a loss.
@Suite(.tags(.unit)) struct DeliveryLedgerTests {
  private static let start = ContinuousClock.now
  private static func at(_ second: Int) -> ContinuousClock.Instant { start + .seconds(second) }
  private static func id(_ number: Int) -> MessageID { MessageID("+1", Int64(number)) }
  private static func body(_ number: Int) -> [UInt8] { Array("message \(number)".utf8) }

  /// Messages 1...6 to one device, one accepted before the next is submitted, each delivered once, in order.
  private static func books(leavingOut skipped: Set<Int> = [], deliver: Bool = true) -> DeliveryLedger {
    let ledger = DeliveryLedger()
    for number in 1...6 {
      ledger.submitting(id(number), to: "A", body: body(number), at: at(number * 10))
      ledger.accepted(id(number), at: at(number * 10 + 1))
    }
    for number in 1...6 where deliver && !skipped.contains(number) { arrive(number, in: ledger) }
    return ledger
  }

  private static func arrive(_ number: Int, on connection: Int = 1, to device: String = "A", in ledger: DeliveryLedger)
  {
    ledger.delivered(
      id(number), body: body(number), to: device, connection: connection, since: at(connection * 100 - 100),
      at: at(number * 10 + 5))
  }

  @Test func `books without a fault are clean, and repeats are none`() {
    let ledger = Self.books()
    Self.arrive(5, on: 2, in: ledger)
    Self.arrive(6, on: 2, in: ledger)
    let audit = ledger.audit()
    #expect(audit.isClean, "\(audit)")
    #expect(audit.accepted == 6 && audit.delivered == 6 && audit.repeated == 2 && audit.connections == 2)
    #expect(audit.longestDelay == .seconds(4))
    #expect(ledger.owedCount == 0)
  }

  @Test func `a loss is found`() {
    let ledger = Self.books(leavingOut: [3])
    let audit = ledger.audit()
    #expect(audit.lost == [Self.id(3)] && !audit.isClean)
    #expect(audit.doubled.isEmpty && audit.reordered.isEmpty && audit.foreign.isEmpty)
    #expect(ledger.owedCount == 1)
    #expect("\(audit)".contains("lost: +1/3"), "\(audit)")
  }

  @Test func `a delivery to another device is a loss to the recipient, and foreign to the other`() {
    let ledger = Self.books(leavingOut: [3])
    Self.arrive(3, to: "B", in: ledger)
    let audit = ledger.audit()
    #expect(audit.lost == [Self.id(3)] && audit.foreign == [Self.id(3)])
    #expect(ledger.owedCount == 1)
  }

  @Test func `a double under another id is found`() {
    let ledger = Self.books()
    ledger.delivered(Self.id(7), body: Self.body(4), to: "A", connection: 1, since: Self.start, at: Self.at(99))
    let audit = ledger.audit()
    #expect(audit.doubled == [Self.id(7)] && !audit.isClean)
    #expect(audit.foreign == [Self.id(7)], "nobody sent it")
  }

  @Test func `one id twice over one connection is found`() {
    let ledger = Self.books()
    Self.arrive(4, in: ledger)
    let audit = ledger.audit()
    #expect(audit.doubled == [Self.id(4)] && !audit.isClean)
    #expect(audit.repeated == 1 && audit.returned.isEmpty && audit.foreign.isEmpty)
  }

  @Test func `a message that comes again on a connection opened after its receipt is found`() {
    let ledger = Self.books()
    ledger.receipted(Self.id(4), at: Self.at(99))
    ledger.receipted(Self.id(5), at: Self.at(101))
    // Opened at 100: the fourth was removed before, the fifth perhaps not.
    for number in 4...5 { Self.arrive(number, on: 2, in: ledger) }
    let audit = ledger.audit()
    #expect(audit.returned == [Self.id(4)] && !audit.isClean)
    #expect(audit.repeated == 2 && audit.doubled.isEmpty)
  }

  @Test func `a delivery that nobody sent is found`() {
    let ledger = Self.books()
    Self.arrive(8, in: ledger)
    let audit = ledger.audit()
    #expect(audit.foreign == [Self.id(8)] && audit.doubled.isEmpty && !audit.isClean)
  }

  @Test func `a body that was altered is found, on a repeat too`() {
    for number in [6, 2] {
      let ledger = Self.books(leavingOut: [6])
      ledger.delivered(
        Self.id(number), body: Self.body(9), to: "A", connection: 2, since: Self.start, at: Self.at(99))
      #expect(ledger.audit().altered == [Self.id(number)])
    }
  }

  @Test func `a reorder is found`() {
    let ledger = Self.books(deliver: false)
    for number in [1, 2, 5, 3, 4, 6] { Self.arrive(number, in: ledger) }
    let audit = ledger.audit()
    #expect(audit.reordered.map(\.description) == ["A got +1/5 before +1/3"] && !audit.isClean)
    #expect(audit.lost.isEmpty && audit.doubled.isEmpty)
  }

  @Test func `concurrent messages have no order, and neither have repeats`() {
    let ledger = DeliveryLedger()
    for number in 1...3 { ledger.submitting(Self.id(number), to: "A", body: Self.body(number), at: Self.at(number)) }
    for number in 1...3 { ledger.accepted(Self.id(number), at: Self.at(10 + number)) }
    for number in [3, 1, 2] { Self.arrive(number, in: ledger) }
    Self.arrive(3, on: 2, in: ledger)
    #expect(ledger.audit().isClean)
  }

  @Test func `a message without an answer may be there or not`() {
    let ledger = Self.books()
    for number in 7...8 { ledger.submitting(Self.id(number), to: "A", body: Self.body(number), at: Self.at(99)) }
    Self.arrive(7, in: ledger)
    let audit = ledger.audit()
    #expect(audit.isClean && audit.unanswered == 1 && audit.submitted == 8 && audit.accepted == 6)
  }
}
