import TestTags
import Testing

@testable import Push

/// The order of turns, and the room for pushes.
@Suite(.tags(.unit)) struct TurnsTests {
  private func turns(workers: Int = 2, perDestination: Int = 2, held: Int = 4, bytes: Int = 100) -> PushTurns {
    PushTurns(
      .init(workersMax: workers, destinationWorkersMax: perDestination, heldMax: held, heldBytesMax: bytes))
  }

  @Test func `the queue is bounded in messages and in bytes`() {
    var turns = turns()
    for _ in 0..<4 { #expect(turns.admit(bytes: 10, for: "a") == true) }
    #expect(turns.admit(bytes: 1, for: "a") == false)
    turns.dismiss(bytes: 10, for: "a")
    #expect(turns.admit(bytes: 71, for: "a") == false)
    #expect(turns.admit(bytes: 70, for: "a") == true)
    #expect(turns.heldBytes == 100)
  }

  @Test func `one destination leaves room to the others`() {
    var turns = PushTurns(
      .init(workersMax: 1, destinationWorkersMax: 1, heldMax: 4, heldBytesMax: 100, destinationHeldMax: 2))
    #expect(turns.admit(bytes: 1, for: "slow") == true)
    #expect(turns.admit(bytes: 1, for: "slow") == true)
    #expect(turns.admit(bytes: 1, for: "slow") == false)
    #expect(turns.admit(bytes: 1, for: "other") == true)
    turns.dismiss(bytes: 1, for: "slow")
    #expect(turns.admit(bytes: 1, for: "slow") == true)
  }

  @Test func `the first to come goes first`() {
    var turns = turns()
    #expect(turns.enter(1, for: "a") == true)
    #expect(turns.enter(2, for: "a") == true)
    #expect(turns.enter(3, for: "a") == false)
    #expect(turns.enter(4, for: "a") == false)
    #expect(turns.leave("a") == 3)
    #expect(turns.leave("a") == 4)
    #expect(turns.leave("a") == nil)
    #expect(turns.leave("a") == nil)
    #expect(turns.working == 0)
  }

  @Test func `destinations take turns`() {
    var turns = turns(workers: 1)
    #expect(turns.enter(1, for: "a") == true)
    for ticket in 2...4 { #expect(turns.enter(PushTurns.Ticket(ticket), for: "a") == false) }
    #expect(turns.enter(5, for: "b") == false)
    #expect(turns.leave("a") == 2)
    #expect(turns.leave("a") == 5)
    #expect(turns.leave("b") == 3)
  }

  @Test func `one destination leaves workers to the others`() {
    var turns = turns(workers: 2, perDestination: 1)
    #expect(turns.enter(1, for: "slow") == true)
    #expect(turns.enter(2, for: "slow") == false)
    #expect(turns.enter(3, for: "other") == true)
    #expect(turns.leave("other") == nil)
    #expect(turns.leave("slow") == 2)
  }

  @Test func `a caller that gives up is passed over`() {
    var turns = turns(workers: 1)
    #expect(turns.enter(1, for: "a") == true)
    #expect(turns.enter(2, for: "a") == false)
    #expect(turns.enter(3, for: "a") == false)
    #expect(turns.withdraw(2, for: "a") == true)
    #expect(turns.withdraw(2, for: "a") == false)
    #expect(turns.leave("a") == 3)
    // A worker's turn cannot be given up.
    #expect(turns.withdraw(3, for: "a") == false)
  }
}
