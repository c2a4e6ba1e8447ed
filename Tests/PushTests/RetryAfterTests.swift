import RelayCore
import TestTags
import Testing

@testable import Push

/// Both forms of `Retry-After`.
@Suite(.tags(.unit)) struct RetryAfterTests {
  /// 21 October 2026, 07:27:30 UTC.
  private let now = Timestamp(millis: 1_792_567_650_000)

  @Test func `seconds and dates are read`() {
    #expect(RetryAfter.read("7", now: now) == .seconds(7))
    #expect(RetryAfter.read("0", now: now) == .seconds(1))
    for date in [
      "Wed, 21 Oct 2026 07:28:00 GMT", "Wednesday, 21-Oct-26 07:28:00 GMT", "Wed Oct 21 07:28:00 2026",
    ] { #expect(RetryAfter.read(date, now: now) == .seconds(30), "\(date)") }
  }

  @Test func `a time that has passed or cannot be read is none`() {
    for text in [nil, "", "-3", "soon", "7.5", "Wed, 21 Oct 2026 07:27:00 GMT", "Wed, 41 Foo 2026 07:28:00 GMT"] {
      #expect(RetryAfter.read(text, now: now) == nil, "\(text ?? "none")")
    }
  }

  @Test func `no wait is longer than a day`() {
    #expect(RetryAfter.read("99999999999999999999", now: now) == RetryAfter.max)
    #expect(RetryAfter.read("Wed, 21 Oct 2099 07:28:00 GMT", now: now) == RetryAfter.max)
  }
}
