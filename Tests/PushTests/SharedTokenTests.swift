import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

@Suite(.tags(.unit)) struct SharedTokenTests {
  /// As when a host starts with a wrong clock, which is corrected soon.
  @Test func `a token that was made while the clock was ahead is made anew`() async throws {
    let clock = MovedClock(Timestamp(millis: 1_700_000_000_000))
    let shared = SharedToken {
      let now = clock.wall.now()
      return .success(
        SharedToken.Token(authorization: "\(now.millis)", made: now, renewal: now.adding(.seconds(1800))))
    }
    func current() async throws -> Timestamp {
      try await shared.current(now: clock.wall.now(), until: .now + .seconds(60)).made
    }
    let first = try await current()
    clock.advance(.seconds(10))
    #expect(try await current() == first)
    clock.advance(.seconds(-7200))
    let second = try await current()
    #expect(second == first.adding(.seconds(-7190)))
    clock.advance(.seconds(1799))
    #expect(try await current() == second)
    clock.advance(.seconds(1))
    #expect(try await current() > second)
  }
}
