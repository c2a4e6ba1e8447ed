import TestSupport
import TestTags
import Testing

@testable import RelayWork

@Suite(.tags(.unit)) struct TwoGenerationsTests {
  @Test func `the last half of the capacity is always there, and no more than all of it`() {
    var table = TwoGenerations<Int, Int>(capacity: 10)
    for key in 0..<1000 {
      table.insert(key, for: key)
      #expect(table.count <= 10)
      for known in max(0, key - 4)...key { #expect(table[known] == known) }
    }
    #expect(table[980] == nil)
  }

  @Test func `a key has its last value, and none once it is removed`() {
    var table = TwoGenerations<Int, String>(capacity: 4)
    table.insert("a", for: 1)
    table.insert("b", for: 2)
    table.insert("c", for: 3)
    #expect(table.old == [1: "a", 2: "b"] && table.young == [3: "c"])
    table.insert("d", for: 1)
    #expect(table[1] == "d" && table.young.count == 2)
    table.insert("e", for: 1)
    #expect(table[1] == "e" && table.young.count == 2)
    #expect(table.removeValue(forKey: 1) == "e")
    #expect(table[1] == nil)
    #expect(table.removeValue(forKey: 2) == "b")
    table.removeOld()
    #expect(table.young == [3: "c"] && table.count == 1)
    table.removeAll()
    #expect(table.count == 0)
  }

  @Test func `what is used stays though much else comes, what is only looked at does not`() {
    var table = TwoGenerations<Int, Int>(capacity: 10)
    table.insert(0, for: -1)
    for key in 0..<100 {
      #expect(
        table.update(-2, orInsert: 0) { value in
          value += 1
          return value
        } == key + 1)
      table.updateExisting(-1) { $0 += 1 }
      table.insert(0, for: key)
    }
    #expect(table[-1] == nil)
    #expect(table[-2] == 100)
  }

  @Test func `an owner may turn by itself`() {
    var table = TwoGenerations<Int, Int>()
    for key in 0..<1000 { table.insert(key, for: key) }
    #expect(table.young.count == 1000)
    table.turn(reservesRoom: true)
    #expect(table.young.isEmpty && table.young.capacity >= 1000 && table[7] == 7)
    table.turn(keepsYoung: false)
    #expect(table.count == 0)
  }

  @Test func `an entry is there for one life at least and two at most`() {
    var table = AgedGenerations<Int, Int, ManualClock.Instant>(capacity: 100, life: .seconds(60))
    func at(_ seconds: Int) -> ManualClock.Instant { ManualClock.Instant(.seconds(seconds)) }
    table.insert(1, for: 1, at: at(0))
    table.insert(2, for: 2, at: at(59))
    #expect(table.value(of: 1, at: at(60)) == 1)
    #expect(table.value(of: 2, at: at(119)) == 2)
    #expect(table.value(of: 1, at: at(120)) == nil)
    table.insert(3, for: 3, at: at(130))
    // Two lives without a word: nothing is young enough.
    #expect(table.value(of: 3, at: at(240)) == nil)
  }

  @Test func `too many entries are forgotten sooner`() {
    var table = AgedGenerations<Int, Int, ManualClock.Instant>(capacity: 10, life: .seconds(60))
    for key in 0..<100 { table.insert(key, for: key, at: ManualClock.Instant(.seconds(1))) }
    #expect(table.count <= 10)
    #expect(table.value(of: 99, at: ManualClock.Instant(.seconds(1))) == 99)
    #expect(table.value(of: 80, at: ManualClock.Instant(.seconds(1))) == nil)
  }
}
