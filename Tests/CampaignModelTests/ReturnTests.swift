import CampaignModel
import TestTags
import Testing

/// Figures of a run: how soon things go on after somebody is back, and how long they stand still meanwhile.
@Suite(.tags(.unit)) struct ReturnTests {
  private static func figures(_ tell: (inout Story) -> Void) -> Figures {
    var story = Story()
    // Device 0 is at one operator, 1 at the other.
    story.answer(story.invoke(.register, by: 0, to: Place("alpha")))
    story.answer(story.invoke(.register, by: 1, to: Place("beta")))
    tell(&story)
    var figures = Figures()
    for event in story.events { figures.take(event) }
    return figures
  }

  @Test func `each party's return is told by the next thing that needs it`() {
    let figures = Self.figures { story in
      story.fault(.postgresCrashed, at: "alpha")
      story.accept(1)  // Submitted and answered: two seconds.
      story.fault(.redisRestarted, at: "beta")
      story.deliver(1)  // It was submitted before.
      story.accept(2)
      story.deliver(2)
      story.fault(.linkCut, at: "alpha", link: .peer)
      story.accept(3)
      story.deliver(3)
    }
    #expect(figures.returns.millis == [.postgres: [2000], .redis: [4000], .peer: [3000]])
    #expect(figures.returns.percentile(.peer, 0.99) == 3000)
  }

  @Test func `a return that another fault disturbs is not measured`() {
    let figures = Self.figures { story in
      story.fault(.postgresCrashed, at: "alpha")
      story.fault(.redisFlushed, at: "alpha")
      story.accept(1)
      story.saw(.faultBegan(8, .slowReaders, at: "beta"))
      story.fault(.postgresCrashed, at: "alpha")
      story.saw(.faultEnded(8))
      story.accept(2)
    }
    #expect(figures.returns.millis == [:])
    #expect(figures.returns.percentile(.postgres, 0.5) == nil)
  }

  @Test func `traffic stands still for as long as a submission waits for any answer`() {
    let figures = Self.figures { story in
      let before = story.submit(1)
      story.wait(20)
      story.answer(before)
      story.saw(.faultBegan(8, .maintenance, at: "alpha"))
      story.wait(20)  // Nobody waits.
      let first = story.submit(2)
      let second = story.submit(3)
      story.answer(second)
      story.wait(4)
      story.answer(first)
      story.saw(.faultEnded(8))
      let behind = story.submit(4)
      story.wait(20)
      story.answer(behind)
    }
    #expect(figures.maintenance.longestMillis == 5000)
    #expect(figures.maintenance.longestBehindMillis == 21_000)
    #expect(Self.figures { $0.accept(1) }.maintenance.longestMillis == nil)
  }

  @Test func `a request over a connection that a rolling restart ends is no failure of it`() {
    let figures = Self.figures { story in
      story.wait(100)
      story.saw(.faultBegan(9, .rollingRestart, at: "alpha"))
      story.write(.unknown(story.invoke(.draw, to: Place("alpha", isLive: true))))
      story.write(.unknown(story.invoke(.draw)))
      story.saw(.faultEnded(9))
    }
    #expect(figures.requestsInRollingRestart == 1 && figures.failedInRollingRestart == 1)
  }
}
