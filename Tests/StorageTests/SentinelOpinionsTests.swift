import RelayCore
import TestTags
import Testing

@testable import Storage

/// Of the answers of several sentinels the newest decides, whichever of them are dead or cut off.
@Suite(.tags(.unit)) struct SentinelOpinionsTests {
  private static func server(_ port: Int) -> RedisEndpoint.Address { .tcp(host: "10.0.0.1", port: port) }
  private static func primary(_ port: Int, epoch: Int64) -> SentinelAnswer { .primary(server(port), epoch: epoch) }

  /// Three sentinels.
  private final class Group {
    private(set) var opinions = SentinelOpinions(
      RedisSentinels(addresses: (1...3).map { server($0) }, group: "relay"))
    var primary: RedisEndpoint.Address? { opinions.primary }
    var fault: RedisLinkFault? { opinions.fault }
    var dissenters: [RedisEndpoint.Address] { opinions.dissenters }
    private var now = ContinuousClock.now
    func wait(_ duration: Duration) { now += duration }
    func answered(_ answer: SentinelAnswer, _ index: Int) -> Bool { opinions.answered(answer, index, at: now) }
    func away(_ fault: RedisLinkFault, _ index: Int) -> Bool { opinions.away(fault, index, at: now) }
  }

  @Test func `the highest epoch decides, also against a majority of a former one`() {
    let group = Group()
    #expect(group.answered(Self.primary(100, epoch: 1), 0))
    #expect(group.primary == Self.server(100))
    #expect(!group.answered(Self.primary(100, epoch: 1), 1))
    #expect(group.answered(Self.primary(200, epoch: 2), 2))
    #expect(group.primary == Self.server(200))
    #expect(group.dissenters == [Self.server(1), Self.server(2)])
    // Those that return with what they knew change nothing.
    #expect(!group.answered(Self.primary(100, epoch: 1), 0))
    #expect(!group.answered(Self.primary(200, epoch: 2), 1))
    #expect(group.dissenters == [Self.server(1)])
  }

  @Test func `of one epoch the address decides that most of them name, and then their order`() {
    let group = Group()
    _ = group.answered(Self.primary(100, epoch: 3), 0)
    _ = group.answered(Self.primary(200, epoch: 3), 1)
    #expect(group.primary == Self.server(100))
    #expect(group.answered(Self.primary(200, epoch: 3), 2))
    #expect(group.primary == Self.server(200))
  }

  @Test func `a sentinel that is away is believed in what it said, and the primary stays when all are away`() {
    let group = Group()
    _ = group.answered(Self.primary(200, epoch: 2), 0)
    for index in 0..<3 { #expect(!group.away(.cannotConnect, index)) }
    #expect(group.primary == Self.server(200))
    #expect(group.fault == nil)
    #expect(group.opinions.faults.count == 3)
    // One that was cut off before the fail-over.
    #expect(!group.answered(Self.primary(100, epoch: 1), 1))
    #expect(group.primary == Self.server(200))
    #expect(group.answered(Self.primary(100, epoch: 3), 1))
    #expect(group.primary == Self.server(100))
  }

  @Test func `one that died with a higher epoch is heard for a minute, and then the others that agree`() {
    let group = Group()
    for index in 0..<3 { _ = group.answered(Self.primary(100, epoch: 5), index) }
    _ = group.away(.cannotConnect, 2)
    // The two others were set up anew.
    for index in 0..<2 { #expect(!group.answered(Self.primary(200, epoch: 0), index)) }
    group.wait(.seconds(50))
    _ = group.away(.cannotConnect, 2)
    #expect(!group.answered(Self.primary(200, epoch: 0), 0))
    #expect(group.primary == Self.server(100))
    group.wait(.seconds(11))
    #expect(group.answered(Self.primary(200, epoch: 0), 0))
    #expect(group.primary == Self.server(200))
    // Its epoch is gone for good.
    _ = group.away(.cannotConnect, 1)
    #expect(!group.answered(Self.primary(200, epoch: 0), 0))
    #expect(group.primary == Self.server(200))
  }

  @Test func `sentinels that were set up anew are believed once all that answered before say so`() {
    let group = Group()
    for index in 0..<2 { _ = group.answered(Self.primary(100, epoch: 9), index) }
    #expect(!group.answered(Self.primary(200, epoch: 0), 0))
    #expect(group.answered(Self.primary(200, epoch: 0), 1))
    #expect(group.primary == Self.server(200))
  }

  @Test func `nothing is said of a fault until every sentinel was tried, and then all of it`() {
    let group = Group()
    _ = group.away(.cannotConnect, 0)
    _ = group.away(RedisLinkFault(refusingLogin: "WRONGPASS"), 1)
    #expect(group.fault == nil)
    _ = group.away(.noSentinel, 2)
    let fault = group.fault
    #expect(fault?.isRefusal == true)
    for words in ["no sentinel of Redis answers", "10.0.0.1:1: cannot connect", "WRONGPASS", "is no sentinel"] {
      #expect(fault?.reason.contains(words) == true)
    }
    #expect(group.answered(.unknownGroup, 0))
    #expect(group.fault?.reason.contains("know no primary named relay") == true)
    #expect(group.answered(Self.primary(100, epoch: 0), 2))
    #expect(group.fault == nil)
    #expect(group.dissenters == [Self.server(1)])
  }

  @Test func `answers of sentinels are read, and what could be no address is not used`() {
    func bytes(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }
    let state = RedisReply.array(["name", "relay", "config-epoch", "7"].map(bytes))
    #expect(
      SentinelAnswer(state: state, address: .array([bytes("fd00::1"), bytes("6379")]))
        == .primary(.tcp(host: "fd00::1", port: 6379), epoch: 7))
    // A value that reads as the name of another is none.
    let misleading = RedisReply.array(["name", "config-epoch", "9", "x"].map(bytes))
    for state in [nil, .error(code: "ERR"), .array([]), .array([bytes("config-epoch")]), misleading] {
      #expect(
        SentinelAnswer(state: state, address: .array([bytes("a"), bytes("1")]))
          == .primary(.tcp(host: "a", port: 1), epoch: 0))
    }
    #expect(SentinelAnswer(state: state, address: .null) == .unknownGroup)
    for address in [
      [], ["a"], ["a", "0"], ["a", "65536"], ["a", "x"], ["", "1"], ["a b", "1"], ["a\0", "1"], ["a", "1", "2"],
      [String(repeating: "a", count: 256), "1"],
    ] {
      #expect(SentinelAnswer(state: state, address: .array(address.map(bytes))) == .nonsense)
    }
    for reply in [RedisReply.error(code: "ERR"), .integer(1), .status("OK"), bytes("a")] {
      #expect(SentinelAnswer(state: state, address: reply) == nil)
    }
  }
}
