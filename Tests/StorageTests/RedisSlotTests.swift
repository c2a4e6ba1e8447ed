import RelayCore
import TestTags
import Testing

@testable import Storage

/// Keys lie in the slots that Redis's specification gives them.
@Suite(.tags(.unit)) struct RedisSlotTests {
  @Test func `the checksum and the slots are those of the specification`() {
    #expect(RedisSlot.checksum("123456789".utf8) == 0x31C3)
    #expect(RedisSlot.checksum([]) == 0)
    // As CLUSTER KEYSLOT tells them.
    for (key, slot) in [("foo", 12_182), ("bar", 5_061), ("hello", 866)] { #expect(RedisSlot.of(key) == slot) }
  }

  @Test func `a node is where its cluster says, by its address while its name is not known`() throws {
    let asked = RedisEndpoint.Address.tcp(host: "10.0.0.1", port: 7000)
    func bytes(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }
    func owner(_ node: [RedisReply]) -> RedisEndpoint.Address? {
      SlotMap(.array([.array([.integer(0), .integer(9), .array(node)])]), by: asked)?.node(of: 5)
    }
    #expect(owner([bytes("redis1"), .integer(7001)]) == .tcp(host: "redis1", port: 7001))
    #expect(owner([.null, .integer(7001)]) == .tcp(host: "10.0.0.1", port: 7001))
    let known = RedisReply.array([bytes("ip"), bytes("10.0.0.2")])
    #expect(owner([bytes("?"), .integer(7001), bytes("id"), known]) == .tcp(host: "10.0.0.2", port: 7001))
    #expect(owner([bytes("?"), .integer(7001), bytes("id"), .array([])]) == nil)
    #expect(owner([bytes("?"), .integer(7001)]) == nil)

    let moved = try #require(RedisRedirection("MOVED 5 2001:db8::2:7001"))
    #expect(moved.address(by: asked) == .tcp(host: "2001:db8::2", port: 7001) && !moved.isNameless)
    #expect(try #require(RedisRedirection("ASK 5 :7001")).address(by: asked) == .tcp(host: "10.0.0.1", port: 7001))
    #expect(try #require(RedisRedirection("MOVED 5 ?:7001")).isNameless)
  }

  @Test func `a hash tag decides, the first one, and an empty one does not`() {
    for key in ["{foo}", "{foo}.bar", "x{foo}{bar}", "{foo}}"] {
      #expect(RedisSlot.of(key) == RedisSlot.of("foo"))
    }
    #expect(RedisSlot.of("foo{}{bar}") == Int(RedisSlot.checksum("foo{}{bar}".utf8)) % RedisSlot.count)
    #expect(RedisSlot.of("a{foo") == Int(RedisSlot.checksum("a{foo".utf8)) % RedisSlot.count)
    #expect(RedisSlot.of("foo{{bar}}zap") == RedisSlot.of("{bar"))
  }

  @Test func `the buckets of one account, and those of one peer, belong to one subject each`() throws {
    let (number, other) = (try Sample.number(1), try Sample.number(2))
    let peer = try Sample.relay("beta")
    for key in [LimitKey(number), LimitKey(number, other), LimitKey(linkingTo: number), LimitKey(number).byStrangers] {
      #expect(key.subject == number.e164)
    }
    for key in [LimitKey(peer), LimitKey(peer, LimitKey(number, other))] { #expect(key.subject == "beta") }
    #expect(LimitKey.everyone.subject == "*")
  }

  @Test func `tags of many subjects spread over the slots`() throws {
    let slots = try (0..<30_000).map { RedisSlot.of(RedisSlot.tag(of: try Sample.number($0).e164.utf8)) }
    let perNode = (0..<3).map { node in slots.count { $0 * 3 / RedisSlot.count == node } }
    for count in perNode { #expect((8_000...12_000).contains(count)) }
  }
}
