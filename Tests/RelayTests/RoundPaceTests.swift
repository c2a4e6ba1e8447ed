import TestSupport
import TestTags
import Testing

@testable import Relay

/// When mailboxes are read that nobody was woken for: by a clock that the test moves on.
@Suite(.tags(.unit)) struct RoundPaceTests {
  /// A process's sessions, as the hub goes round them.
  private struct Rounds {
    static let (steps, rounds) = (20, 24)
    /// A round takes 25 seconds, and 24 of them 10 minutes.
    static let step = Duration.milliseconds(1250)
    static let (round, steady) = (Duration.seconds(25), Duration.seconds(600))

    var pace = RoundPace(steps: steps, rounds: rounds)
    let clock = ManualClock()
    let ids: [UInt64]
    private var sessions = SessionRounds<UInt64>(steps: steps)
    private(set) var turns: [UInt64: [Duration]] = [:]

    init(_ count: Int, seed: UInt64 = 7) {
      var random = SeededGenerator(seed: seed)
      ids = (0..<count).map { _ in random.next() }
      for id in ids { sessions.insert(id, id: id) }
    }

    mutating func run(for duration: Duration) {
      let end = clock.now.offset + duration
      while clock.now.offset + Self.step <= end {
        clock.advance(by: Self.step)
        let turn = pace.next()
        for id in sessions.next() where turn.includes(id) { turns[id, default: []].append(clock.now.offset) }
      }
    }

    mutating func forget() { turns = [:] }
    func count(of id: UInt64) -> Int { turns[id]?.count ?? 0 }
  }

  @Test func `until words arrive every mailbox has its turn in each round`() {
    var rounds = Rounds(500)
    rounds.run(for: Rounds.round * 4)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 4 })
  }

  @Test func `while words arrive every mailbox has a turn each ten minutes, and no moment has many`() {
    var rounds = Rounds(4800)
    rounds.run(for: .seconds(70))
    rounds.pace.connected()
    rounds.forget()
    rounds.run(for: Rounds.steady * 3)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 3 })
    for turns in rounds.turns.values {
      for (one, next) in zip(turns, turns.dropFirst()) { #expect(next - one == Rounds.steady) }
    }
    // 480 steps, of 10 on average.
    let moments = Dictionary(grouping: rounds.turns.values.joined(), by: { $0 })
    #expect(moments.values.allSatisfy { $0.count < 40 })
  }

  @Test func `in a break every mailbox has its turn in each round, and seldom again behind it`() {
    var rounds = Rounds(500)
    rounds.pace.connected()
    rounds.run(for: Rounds.steady)
    rounds.pace.disconnected()
    rounds.forget()
    rounds.run(for: Rounds.round * 3)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 3 })
    rounds.pace.connected()
    rounds.forget()
    rounds.run(for: Rounds.steady)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 1 })
  }

  @Test func `a doubt gives every mailbox one prompt turn, wherever in a round it comes`() {
    for steps in [0, 1, 7, Rounds.steps - 1] {
      var rounds = Rounds(300)
      rounds.pace.connected()
      rounds.run(for: Rounds.steady + Rounds.step * steps)
      rounds.forget()
      rounds.pace.doubted()
      rounds.run(for: Rounds.round)
      #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 1 })
      rounds.forget()
      rounds.run(for: Rounds.steady)
      #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 1 })
    }
  }

  @Test func `a doubt within a break, or during another one, is no longer than its round`() {
    var rounds = Rounds(300)
    rounds.pace.connected()
    rounds.pace.doubted()
    rounds.run(for: Rounds.round - Rounds.step)
    rounds.pace.doubted()
    rounds.forget()
    rounds.run(for: Rounds.round)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 1 })
    rounds.pace.disconnected()
    rounds.pace.doubted()
    rounds.run(for: Rounds.round)
    rounds.pace.connected()
    rounds.forget()
    rounds.run(for: Rounds.steady)
    #expect(rounds.ids.allSatisfy { rounds.count(of: $0) == 1 })
  }

  @Test func `one round is all there is where the long interval is no longer than the short one`() {
    var pace = RoundPace(steps: 3, rounds: 0)
    pace.connected()
    for _ in 0..<10 { #expect(pace.next().includes(.random(in: .min ... .max))) }
  }
}
