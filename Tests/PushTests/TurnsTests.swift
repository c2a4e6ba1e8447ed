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

  @Test func `destinations that are not proven share what they have, and leave the rest to the others`() {
    var limits = PushTurns.Limits(workersMax: 4, destinationWorkersMax: 2, heldMax: 8, heldBytesMax: 100)
    (limits.unprovenWorkersMax, limits.unprovenHeldMax) = (2, 3)
    var turns = PushTurns(limits)
    let strangers = ["x", "y", "z", "w"].map { PushDestination($0, isProven: false) }
    let areAdmitted = strangers.map { turns.admit(bytes: 1, for: $0) }
    #expect(areAdmitted == [true, true, true, false])
    #expect(turns.enter(1, for: strangers[0]) == true)
    #expect(turns.enter(2, for: strangers[1]) == true)
    #expect(turns.enter(3, for: strangers[2]) == false)
    // One that answered is served beside them, under a stranger's name too.
    #expect(turns.admit(bytes: 1, for: "x") == true)
    #expect(turns.enter(4, for: "x") == true)
    #expect(turns.leave("x") == [])
    #expect(turns.leave(strangers[0]) == [3])
    turns.dismiss(bytes: 1, for: strangers[0])
    #expect(turns.admit(bytes: 1, for: strangers[3]) == true)
  }

  @Test func `a destination has one share, proven or not, and room of both kinds is given on at once`() {
    var limits = PushTurns.Limits(
      workersMax: 4, destinationWorkersMax: 1, heldMax: 8, heldBytesMax: 100, destinationHeldMax: 2)
    limits.unprovenWorkersMax = 1
    var turns = PushTurns(limits)
    let (new, other) = (PushDestination("x", isProven: false), PushDestination("y", isProven: false))
    #expect(turns.admit(bytes: 1, for: new) == true)
    #expect(turns.admit(bytes: 1, for: "x") == true)
    #expect(turns.admit(bytes: 1, for: "x") == false)
    #expect(turns.enter(1, for: new) == true)
    #expect(turns.enter(2, for: "x") == false)
    #expect(turns.enter(3, for: other) == false)
    #expect(turns.leave(new) == [2, 3])
    #expect(turns.working == 2)
  }

  @Test func `an answer proves a destination for an hour, and silence ends that`() {
    var proven = ProvenDestinations(max: 2)
    let now = ContinuousClock.now
    func isProven(_ name: String, _ seconds: Int = 0) -> Bool {
      proven.destination(name, now: now + .seconds(seconds)).isProven
    }
    #expect(!isProven("a"))
    proven.ended(.answered, "a", now: now)
    proven.ended(.nothing, "a", now: now)
    #expect(isProven("a", 3599) && !isProven("a", 3600) && !isProven("b"))
    proven.ended(.answered, "b", now: now + .seconds(1))
    proven.ended(.answered, "c", now: now + .seconds(2))
    #expect(proven.count == 2 && !isProven("a") && isProven("b") && isProven("c"))
    proven.ended(.failed, "b", now: now)
    #expect(!isProven("b"))
  }

  @Test func `the first to come goes first`() {
    var turns = turns()
    #expect(turns.enter(1, for: "a") == true)
    #expect(turns.enter(2, for: "a") == true)
    #expect(turns.enter(3, for: "a") == false)
    #expect(turns.enter(4, for: "a") == false)
    #expect(turns.leave("a") == [3])
    #expect(turns.leave("a") == [4])
    #expect(turns.leave("a") == [])
    #expect(turns.leave("a") == [])
    #expect(turns.working == 0)
  }

  @Test func `destinations take turns`() {
    var turns = turns(workers: 1)
    #expect(turns.enter(1, for: "a") == true)
    for ticket in 2...4 { #expect(turns.enter(PushTurns.Ticket(ticket), for: "a") == false) }
    #expect(turns.enter(5, for: "b") == false)
    #expect(turns.leave("a") == [2])
    #expect(turns.leave("a") == [5])
    #expect(turns.leave("b") == [3])
  }

  @Test func `one destination leaves workers to the others`() {
    var turns = turns(workers: 2, perDestination: 1)
    #expect(turns.enter(1, for: "slow") == true)
    #expect(turns.enter(2, for: "slow") == false)
    #expect(turns.enter(3, for: "other") == true)
    #expect(turns.leave("other") == [])
    #expect(turns.leave("slow") == [2])
  }

  @Test func `a caller that gives up is passed over`() {
    var turns = turns(workers: 1)
    #expect(turns.enter(1, for: "a") == true)
    #expect(turns.enter(2, for: "a") == false)
    #expect(turns.enter(3, for: "a") == false)
    #expect(turns.withdraw(2, for: "a") == true)
    #expect(turns.withdraw(2, for: "a") == false)
    #expect(turns.leave("a") == [3])
    // A worker's turn cannot be given up.
    #expect(turns.withdraw(3, for: "a") == false)
  }
}

extension PushDestination: ExpressibleByStringLiteral {
  public init(stringLiteral name: String) { self.init(name, isProven: true) }
}
