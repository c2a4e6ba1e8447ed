import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// The answers that callers get while hosts never answer.
@Suite(.tags(.unit)) struct HostResolverTests {
  @Test func `one look-up serves all who ask for a host`() async throws {
    let (hosts, gate) = (HeldHosts(["1.1.1.1"]), BlockingGate())
    defer { gate.open() }
    let resolver = hosts.resolver(behind: gate)
    // A caller that gives up ends no other caller's look-up, and none needs another one.
    for _ in 0..<100 { #expect(await resolver.addresses("slow.test", .zero) != ["1.1.1.1"]) }
    async let answer = resolver.addresses("slow.test", .seconds(60))
    try await eventually("it is looked up") { hosts.asked == ["slow.test"] }
    gate.open()
    #expect(await answer == ["1.1.1.1"])
  }

  /// Four others hang: what waits for a thread has not been asked.
  @Test func `a look-up that waits for a thread is no missing name`() async throws {
    let (hosts, gate) = (HeldHosts([]), BlockingGate())
    defer { gate.open() }
    let resolver = hosts.resolver(behind: gate)
    for number in 0..<4 { _ = await resolver.addresses("hangs\(number).test", .zero) }
    try await eventually("all threads hang") { hosts.asked.count == 4 }
    #expect(await resolver.addresses("waits.test", .milliseconds(1)) == nil)
    #expect(await resolver.addresses("hangs0.test", .milliseconds(1)) == [])
    for number in 5..<64 { _ = await resolver.addresses("more\(number).test", .zero) }
    #expect(await resolver.addresses("full.test", .seconds(60)) == nil)
    // Callers that gave up hold no place behind the end of their look-ups.
    gate.open()
    try await eventually("there is room again") { await resolver.addresses("full.test", .seconds(60)) == [] }
  }

  @Test func `an answer that comes too late is kept for the next one`() async throws {
    let (hosts, gate) = (HeldHosts(["1.1.1.1"]), BlockingGate())
    defer { gate.open() }
    let resolver = hosts.resolver(behind: gate)
    _ = await resolver.addresses("slow.test", .zero)
    gate.open()
    // It is there with no time to wait for it: nothing was asked again.
    try await eventually("it has come") { await resolver.addresses("slow.test", .zero) == ["1.1.1.1"] }
    #expect(hosts.asked.count == 1)
    // For one: the next one asks.
    #expect(await resolver.addresses("slow.test", .seconds(60)) == ["1.1.1.1"])
    #expect(hosts.asked.count == 2)
  }
}

/// Look-ups that all have one answer, and wait for it at a gate.
private final class HeldHosts: Sendable {
  private let answer: [String]
  private let hosts = Mutex<[String]>([])

  init(_ answer: [String]) { self.answer = answer }

  /// In the order in which they were asked for.
  var asked: [String] { hosts.withLock { $0 } }

  func resolver(behind gate: BlockingGate) -> HostResolver {
    HostResolver.threads { [self] host in
      hosts.withLock { $0.append(host) }
      gate.wait()
      return answer
    }
  }
}
