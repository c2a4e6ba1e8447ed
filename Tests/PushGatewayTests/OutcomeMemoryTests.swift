import OrderedCollections
import PushGateway
import RelayCore
import TestTags
import Testing

/// The memory of pushes for their repeats.
@Suite(.tags(.unit)) struct OutcomeMemoryTests {
  private let start = ContinuousClock.now

  private static func push(_ number: Int, key: String = "k", data: JSONObject? = nil) -> PushIdentity {
    PushIdentity(app: "app", device: NotifiedDevice(appID: "a", pushKey: key, data: data), eventID: "$\(number)")
  }

  @Test func `outcomes last a day at least, and two at most`() {
    var memory = OutcomeMemory(max: 100, now: start)
    memory.remember(.rejected, of: Self.push(1), now: start + .seconds(80_000))
    #expect(memory.outcome(of: Self.push(1), now: start + .seconds(80_000 + 86_000)) == .rejected)
    #expect(memory.outcome(of: Self.push(1), now: start + .seconds(3 * 86_400)) == nil)
    #expect(memory.outcome(of: Self.push(2), now: start) == nil)
  }

  @Test func `an idle memory forgets what is old`() {
    var memory = OutcomeMemory(max: 100, now: start)
    memory.remember(.served, of: Self.push(1), now: start)
    #expect(memory.outcome(of: Self.push(1), now: start + .seconds(10 * 86_400)) == nil)
    #expect(memory.count == 0)
  }

  @Test func `it is bounded, and the oldest go first`() {
    var memory = OutcomeMemory(max: 10, now: start)
    for number in 0..<1000 { memory.remember(.served, of: Self.push(number), now: start) }
    #expect(memory.count <= 10)
    #expect((996..<1000).allSatisfy { memory.outcome(of: Self.push($0), now: start) == .served })
    #expect(memory.outcome(of: Self.push(0), now: start) == nil)
  }

  @Test func `accounts of one browser are told apart by their data`() {
    let (one, two): (JSONObject, JSONObject) = (["account": .text("1")], ["account": .text("2")])
    #expect(Self.push(1, data: one) == Self.push(1, data: one))
    #expect(Self.push(1, data: one) != Self.push(1, data: two))
    #expect(Self.push(1, key: "a") != Self.push(1, key: "b"))
    #expect(Self.push(1).occurring(1) != Self.push(1))
  }
}
