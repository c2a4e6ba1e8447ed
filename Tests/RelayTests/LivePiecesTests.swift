import NIOCore
import RelayHTTP
import TestTags
import Testing

@testable import Relay

/// The small parts that live delivery is made of.
@Suite(.tags(.unit)) struct LivePiecesTests {
  private static func call(bodyBytes: Int = 0, id: UInt64? = 1, headers: [String] = []) -> SocketCall {
    SocketCall(
      verb: "PUT", path: "/v1/x", headers: headers, body: ByteBuffer(repeating: 0, count: bodyBytes), id: id)
  }

  private static let ownBytes = call().byteCount

  @Test func `a round names everyone once, however many steps it has`() {
    for steps in [1, 2, 7, 64] {
      var rounds = SessionRounds<UInt64>(steps: steps)
      for id: UInt64 in 0..<500 { rounds.insert(id, id: id &* 0x9E37_79B9_7F4A_7C15) }
      for id: UInt64 in 0..<500 where id % 3 == 0 { rounds.remove(id: id &* 0x9E37_79B9_7F4A_7C15) }
      var named: [UInt64] = []
      for _ in 0..<steps { named += rounds.next() }
      #expect(named.sorted() == (0..<500).filter { $0 % 3 != 0 })
      for _ in 0..<steps { named += rounds.next() }
      #expect(named.count == 2 * 333)
    }
  }

  @Test func `four requests run, others wait in order, and too many are refused`() {
    var calls = SocketCalls()
    for id: UInt64 in 0..<4 {
      #expect(calls.received(Self.call(id: id)) == true)
      #expect(calls.next()?.id == id)
    }
    for id: UInt64 in 0..<76 { #expect(calls.received(Self.call(id: id)) == true) }
    #expect(calls.received(Self.call()) == false)
    #expect(calls.next() == nil)
    for id: UInt64 in 0..<76 {
      calls.answered()
      #expect(calls.next()?.id == id)
    }
    for _ in 0..<4 {
      #expect(!calls.isIdle)
      calls.answered()
    }
    #expect(calls.next() == nil)
    #expect(calls.isIdle)
  }

  @Test func `requests that wait are bounded by their bytes`() {
    var calls = SocketCalls()
    #expect(calls.received(Self.call(bodyBytes: 1 << 20 - Self.ownBytes)) == true)
    #expect(calls.received(Self.call(bodyBytes: 1 << 20 - Self.ownBytes)) == true)
    #expect(calls.received(Self.call()) == false)
    _ = calls.next()
    #expect(calls.received(Self.call(bodyBytes: 1)) == true)
    // Headers count as bodies do.
    #expect(calls.received(Self.call(headers: [String(repeating: "x", count: 1 << 20)])) == false)
    // One is taken whatever its size.
    var empty = SocketCalls()
    #expect(empty.received(Self.call(bodyBytes: 3 << 20)) == true)
    #expect(empty.received(Self.call()) == false)
  }

  @Test func `a batch that fails together is divided, and comes after all others`() {
    func groups(_ items: [(String, Int)]) -> [[String]] {
      failureGroups(of: items, max: 4) { $0.1 }.map { $0.map(\.0) }
    }
    #expect(groups([("a", 0), ("b", 0), ("c", 1), ("d", 0)]) == [["a", "b", "d"], ["c"]])
    #expect(groups([("a", 2), ("b", 2), ("c", 2), ("d", 0)]) == [["d"], ["a", "b"], ["c"]])
    #expect(groups([("a", 99), ("b", 99)]) == [["a"], ["b"]])
    #expect(groups([]).isEmpty)
  }

  @Test func `one that always fails ends up alone, and its neighbours are done soon`() {
    var waiting = (0..<500).map { (item: $0, failures: 0) }
    var tries = 0
    while waiting.count > 1, tries < 100 {
      var groups = failureGroups(of: waiting, max: 500) { $0.failures }[...]
      waiting = []
      while let group = groups.popFirst() {
        tries += 1
        guard group.contains(where: { $0.item == 123 }) else { continue }
        waiting = groups.flatMap(\.self) + group.map { ($0.item, $0.failures + 1) }
        break
      }
    }
    #expect(waiting.map(\.item) == [123])
    #expect(tries < 50)
  }
}
