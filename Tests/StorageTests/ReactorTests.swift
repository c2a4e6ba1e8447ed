import Glibc
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct ReactorTests {
  @Test func `work runs in order on one thread, and ends a round`() async throws {
    let reactor = try Reactor(name: "test")
    let events = Collected<String>()
    #expect(!reactor.isCurrent)
    // The first keeps the thread busy, so that the others make one burst.
    let isQueued = Flag()
    #expect(reactor.submit { while !isQueued.isRaised { sched_yield() } })
    for id in 0..<3 {
      let isAccepted = reactor.submit {
        events.add("work \(id) \(reactor.isCurrent)")
        if id == 0 { reactor.afterRound { events.add("end of round") } }
      }
      #expect(isAccepted)
    }
    isQueued.raise()
    await reactor.stop()
    #expect(events.values == ["work 0 true", "work 1 true", "work 2 true", "end of round"])
    #expect(!reactor.submit {})
    await reactor.stop()
  }

  @Test func `timers run in their order unless they are cancelled`() async throws {
    let reactor = try Reactor(name: "test")
    let events = Collected<Int>()
    #expect(
      reactor.submit {
        reactor.schedule(after: .milliseconds(30)) { events.add(3) }
        let cancelled = reactor.schedule(after: .milliseconds(20)) { events.add(2) }
        reactor.schedule(after: .milliseconds(10)) { events.add(1) }
        reactor.cancel(cancelled)
      })
    try await eventually("both ran") { events.values.count == 2 }
    #expect(events.values == [1, 3])
    await reactor.stop()
  }

  @Test func `a descriptor is reported while it is ready and watched`() async throws {
    let reactor = try Reactor(name: "test")
    var ends: [Int32] = [0, 0]
    #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    let (ours, theirs) = (ends[0], ends[1])
    let events = Collected<String>()
    #expect(
      reactor.submit {
        reactor.watch(ours, for: [.read, .write]) { ready in
          if ready.contains(.write) {
            events.add("writable")
            reactor.update(ours, for: .read)
          }
          if ready.contains(.read) {
            var byte: UInt8 = 0
            let count = read(ours, &byte, 1)
            events.add("read \(count) \(byte)")
            if count == 0 { reactor.unwatch(ours) }
          }
        }
      })
    try await eventually("it is writable") { events.values == ["writable"] }
    var bytes: [UInt8] = [7, 8]
    #expect(write(theirs, &bytes, 2) == 2)
    try await eventually("both bytes are read") { events.values.count == 3 }
    shutdown(theirs, Int32(SHUT_WR))
    try await eventually("the end is read") { events.values.count == 4 }
    #expect(events.values == ["writable", "read 1 7", "read 1 8", "read 0 0"])
    await reactor.stop()
    close(ours)
    close(theirs)
  }
}

private final class Flag: Sendable {
  private let counter = Counter()
  var isRaised: Bool { counter.value > 0 }
  func raise() { counter.add() }
}
