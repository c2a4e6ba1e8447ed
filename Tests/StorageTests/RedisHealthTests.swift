import Logging
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Whether Redis is there is what its connection says; answers that arrive late change nothing.
@Suite(.tags(.unit)) struct RedisHealthTests {
  private let lines = LogRecorder.Lines()
  private func health(settling: Duration = .zero) -> RedisHealth {
    RedisHealth(logger: Logger(label: "redis") { [lines] _ in LogRecorder(lines: lines) }, settling: settling)
  }

  @Test func `an answer that its caller sees after the connection was lost does not bring Redis back`() {
    let health = health()
    health.limitsServed()
    health.signalsCarried()
    health.limitsAway(reason: "the connection ended")
    health.limitsAnswered()
    health.limitsRefused(reason: "Redis answered LOADING")
    #expect(health.fault == "the connection ended")
    health.limitsServed()
    #expect(health.fault == nil)
    #expect(lines.count(.warning, containing: "is away") == 1)
    #expect(lines.count(.notice, containing: "is back") == 1)
  }

  @Test func `a Redis that answers with errors is away until it answers well`() {
    let health = health()
    health.limitsServed()
    health.signalsCarried()
    health.limitsRefused(reason: "Redis answered LOADING")
    #expect(health.fault == "Redis answered LOADING")
    health.limitsRefused(reason: "Redis answered LOADING")
    health.limitsAnswered()
    #expect(health.fault == nil)
    #expect(lines.count(.warning, containing: "is away") == 1)
    #expect(lines.count(.notice, containing: "is back") == 1)
  }

  @Test func `one that refuses some commands and takes others is away, and is said to be so once`() {
    let health = health(settling: .seconds(600))
    health.limitsServed()
    health.signalsCarried()
    for _ in 0..<3 {
      health.limitsRefused(reason: "Redis answered OOM")
      health.limitsAnswered()
      #expect(health.fault == "Redis answered OOM" && !health.servesLimits)
    }
    #expect(lines.count(.warning, containing: "is away") == 1)
    #expect(lines.count(.notice, containing: "is back") == 0)
  }
}
