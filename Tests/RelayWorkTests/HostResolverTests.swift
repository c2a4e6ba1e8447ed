import Foundation
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Which hosts get a thread, when some never answer.
@Suite(.tags(.unit)) struct HostResolverTests {
  @Test func `one look-up serves all who ask for a host`() async throws {
    let asked = Mutex<[String]>([])
    let gate = Gate()
    let resolver = HostResolver.threads { host in
      asked.withLock { $0.append(host) }
      gate.wait()
      return ["1.1.1.1"]
    }
    // A caller that gives up ends no other caller's look-up, and none needs another one.
    for _ in 0..<100 { #expect(await resolver.addresses("slow.test", .zero) != ["1.1.1.1"]) }
    async let answer = resolver.addresses("slow.test", .seconds(60))
    try await eventually("it is looked up") { asked.withLock { $0 } == ["slow.test"] }
    gate.open()
    #expect(await answer == ["1.1.1.1"])
  }

  /// Four others hang: what waits for a thread has not been asked.
  @Test func `a look-up that waits for a thread is no missing name`() async throws {
    let asked = Mutex(0)
    let gate = Gate()
    let resolver = HostResolver.threads { _ in
      asked.withLock { $0 += 1 }
      gate.wait()
      return []
    }
    for number in 0..<4 { _ = await resolver.addresses("hangs\(number).test", .zero) }
    try await eventually("all threads hang") { asked.withLock { $0 } == 4 }
    #expect(await resolver.addresses("waits.test", .milliseconds(1)) == nil)
    #expect(await resolver.addresses("hangs0.test", .milliseconds(1)) == [])
    for number in 5..<64 { _ = await resolver.addresses("more\(number).test", .zero) }
    #expect(await resolver.addresses("full.test", .seconds(60)) == nil)
    gate.open()
  }

  @Test func `hosts that never answer keep none back that answered before`() async throws {
    let names = NameServer()
    let resolver = HostResolver.threads(names.lookUp)
    #expect(await resolver.addresses("known.test", .seconds(60)) == ["1.1.1.1"])
    for number in 0..<64 {
      names.hang("hangs\(number).test")
      _ = await resolver.addresses("hangs\(number).test", .zero)
    }
    #expect(await resolver.addresses("new.test", .seconds(60)) == nil)
    #expect(await resolver.addresses("known.test", .seconds(60)) == ["1.1.1.1"])
    // It hangs now: it is no better than others from here on.
    names.hang("known.test")
    _ = await resolver.addresses("known.test", .zero)
    try await eventually("it is looked up") { names.asked.count { $0 == "known.test" } == 3 }
    names.answer("known.test", [])
    try await eventually("it is one that never answered") {
      await resolver.addresses("known.test", .milliseconds(1)) == nil
    }
    names.answerAll()
  }

  @Test func `a host that answered more often goes first`() async throws {
    let names = NameServer()
    let resolver = HostResolver.threads(names.lookUp)
    let once = (0..<7).map { "once\($0).test" }
    for host in once + ["twice.test", "twice.test"] {
      #expect(await resolver.addresses(host, .seconds(60)) == ["1.1.1.1"])
    }
    for host in once.prefix(6) {
      names.hang(host)
      _ = await resolver.addresses(host, .zero)
    }
    try await eventually("all threads hang") { names.asked.count == 15 }
    for host in [once[6], "twice.test"] { _ = await resolver.addresses(host, .zero) }
    names.hang("twice.test")
    names.answer(once[0], [])
    try await eventually("one goes on") { names.asked.count == 16 }
    #expect(names.asked.last == "twice.test")
    names.answerAll()
  }
}

/// Answers each host at once, except those that hang.
private final class NameServer: Sendable {
  private struct State {
    var asked: [String] = []
    var answers: [String: [String]] = [:]
    var hangs: Set<String> = []
  }
  private let state = Mutex(State())
  private let changed = NSCondition()

  /// Hosts in the order in which they were asked for.
  var asked: [String] { state.withLock(\.asked) }
  func hang(_ host: String) { _ = state.withLock { $0.hangs.insert(host) } }
  func answer(_ host: String, _ addresses: [String]) {
    state.withLock {
      $0.answers[host] = addresses
      $0.hangs.remove(host)
    }
    tell()
  }
  func answerAll() {
    state.withLock { $0.hangs = [] }
    tell()
  }
  private func tell() { changed.withLock { changed.broadcast() } }

  func lookUp(_ host: String) -> [String] {
    state.withLock { $0.asked.append(host) }
    changed.withLock {
      while state.withLock({ $0.hangs.contains(host) }) { changed.wait() }
    }
    return state.withLock { $0.answers[host] ?? ["1.1.1.1"] }
  }
}

/// Holds threads until it is opened.
private final class Gate: Sendable {
  private let isOpen = Mutex(false)
  private let changed = NSCondition()
  func open() {
    isOpen.withLock { $0 = true }
    changed.withLock { changed.broadcast() }
  }
  func wait() {
    changed.withLock {
      while !isOpen.withLock({ $0 }) { changed.wait() }
    }
  }
}
