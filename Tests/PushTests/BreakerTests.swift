import TestTags
import Testing

@testable import Push

/// When pushes to a destination are held back, and when not.
@Suite(.tags(.unit)) struct BreakerTests {
  private let now = ContinuousClock.now

  @Test func `three failures without an answer between them open the breaker`() {
    var breaker = PushBreaker()
    #expect(breaker.ended(.failed, now: now) == .none)
    #expect(breaker.ended(.failed, now: now) == .none)
    #expect(breaker.ended(.answered, now: now) == .none)
    #expect(breaker.ended(.failed, now: now) == .none)
    #expect(breaker.ended(.failed, now: now) == .none)
    #expect(breaker.admission(now: now) == .pass)
    #expect(breaker.ended(.failed, now: now) == .opened)
    #expect(breaker.admission(now: now) == .halted(left: PushBreaker.pauseMin))
  }

  @Test func `refused credentials open the breaker at once`() {
    var breaker = PushBreaker()
    #expect(breaker.ended(.credentialsRefused, now: now) == .opened)
    #expect(breaker.isOpen)
  }

  @Test func `one push probes, and the pauses grow`() {
    var breaker = PushBreaker()
    _ = breaker.ended(.credentialsRefused, now: now)
    var time = now
    for pause in [2, 4, 8, 16, 32, 60, 60] {
      time += .seconds(pause) - .milliseconds(1)
      #expect(breaker.admit(now: time) == .halted(left: .milliseconds(1)))
      time += .milliseconds(1)
      #expect(breaker.admit(now: time) == .pass)
      // The others wait for what becomes of it.
      #expect(breaker.admit(now: time) != .pass)
      #expect(breaker.ended(.failed, now: time) == .none)
    }
    #expect(breaker.admit(now: time + .seconds(60)) == .pass)
    #expect(breaker.ended(.answered, now: time) == .closed)
    #expect(breaker == PushBreaker())
  }

  @Test func `a probe without a result lets the next one through`() {
    var breaker = PushBreaker()
    _ = breaker.ended(.credentialsRefused, now: now)
    let later = now + PushBreaker.pauseMin
    #expect(breaker.admit(now: later) == .pass)
    #expect(breaker.ended(.nothing, now: later) == .none)
    #expect(breaker.admit(now: later) == .pass)
  }

  @Test func `the answer to an earlier push closes the breaker`() {
    var breaker = PushBreaker()
    _ = breaker.ended(.credentialsRefused, now: now)
    #expect(breaker.ended(.answered, now: now) == .closed)
    #expect(breaker.admission(now: now) == .pass)
  }

  @Test func `only the provider's own failures count against it`() {
    let rows: [(PushOutcome, PushBreaker.Verdict)] = [
      (.delivered(id: nil), .answered), (.dead(PushReason(.target, provider: "x", status: 410)), .answered),
      (.refused(PushReason(.message, provider: "x", status: 400)), .answered),
      (.temporary(PushReason(.quota, provider: "x", status: 429)), .answered),
      // Refused here.
      (.dead(PushReason(.target, "x")), .nothing), (.refused(PushReason(.message, "x")), .nothing),
      (.refused(PushReason(.credentials, "x")), .credentialsRefused),
      (.temporary(PushReason(.credentials, "x")), .credentialsRefused), (.temporary(PushReason(.server, "x")), .failed),
      (.temporary(.unreachable), .failed), (.temporary(.lost), .failed), (.temporary(.cancelled), .nothing),
      (.several([.delivered(id: nil)]), .answered),
    ]
    for (outcome, verdict) in rows { #expect(PushBreaker.Verdict(outcome, isRushed: false) == verdict, "\(outcome)") }
    // A caller that gave it little time learns nothing from its end.
    for reason in [PushReason.timedOut, .tokenTimedOut, .unresolved] {
      #expect(PushBreaker.Verdict(.temporary(reason), isRushed: true) == .nothing, "\(reason)")
      #expect(PushBreaker.Verdict(.temporary(reason), isRushed: false) == .failed, "\(reason)")
    }
    #expect(PushBreaker.Verdict(.temporary(.unreachable), isRushed: true) == .failed)
  }

  // MARK: Those of many destinations

  @Test func `breakers that nobody asks for are forgotten`() {
    var breakers = PushBreakers(max: 10)
    for name in ["a", "b"] { #expect(breakers.ended(.credentialsRefused, name, now: now) == .opened) }
    let later = now + PushBreakers.idleMax
    #expect(breakers.admission("b", now: later - .seconds(1)) == .pass)
    breakers.sweep(now: later)
    #expect(breakers.count == 1 && breakers.openCount == 1)
    #expect(breakers.ended(.answered, "b", now: later) == .closed)
    #expect(breakers.count == 0)
  }

  @Test func `a full table forgets the oldest`() {
    var breakers = PushBreakers(max: 3)
    for second in 0..<6 { _ = breakers.ended(.credentialsRefused, "\(second)", now: now + .milliseconds(second)) }
    #expect(breakers.count == 3)
    let soon = now + .milliseconds(10)
    #expect((0..<3).allSatisfy { breakers.admission("\($0)", now: soon) == .pass })
    #expect((3..<6).allSatisfy { breakers.admission("\($0)", now: soon) != .pass })
  }
}
