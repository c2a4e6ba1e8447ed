import CampaignModel
import TestTags
import Testing

/// Each rule keeps silent over a history that keeps it, and names every one that breaks it.
@Suite(.tags(.unit)) struct RuleTests {
  private static let lost = "accepted is delivered or waits"
  private static let sent = "delivered is what was sent, once a connection"
  private static let order = "order within a sender"
  private static let keys = "one-time keys are handed out once"

  @Test func `an empty history keeps every rule`() {
    #expect(Story.broken { _ in } == [])
  }

  // MARK: - Accepted is delivered or waits

  @Test func `an accepted message may be delivered, before its answer too, or wait`() {
    let broken = Story.broken { story in
      story.accept(1)
      story.deliver(1)
      let late = story.submit(2)
      story.deliver(2)
      story.answer(late)
      story.accept(3, to: [1, 2])
      story.deliver(3)
      story.saw(.waiting(MessageNumber(3), for: DeviceIndex(2)))
    }
    #expect(broken == [])
  }

  @Test func `an accepted message that never comes is lost, for one of several devices too`() {
    #expect(Story.broken { $0.accept(1) } == [Self.lost])
    let half = Story.broken { story in
      story.accept(1, to: [1, 2])
      story.deliver(1)
    }
    #expect(half == [Self.lost])
  }

  @Test func `an attempt without an answer may have been accepted or not`() {
    let nothing = Story.broken { story in
      let attempt = story.submit(1)
      story.write(.unknown(attempt))
    }
    let delivered = Story.broken { story in
      let attempt = story.submit(1)
      story.write(.unknown(attempt))
      story.deliver(1)
    }
    let open = Story.broken { story in
      story.submit(1)
      story.deliver(1)
    }
    #expect(nothing == [] && delivered == [] && open == [])
  }

  @Test func `an attempt that is repeated until it is accepted is owed once`() {
    let lost = Story.broken { story in
      story.answer(story.submit(1), .refused(status: 503))
      story.accept(1)
    }
    let kept = Story.broken { story in
      let first = story.submit(1)
      story.deliver(1)
      story.write(.unknown(first))
      story.accept(1)
    }
    #expect(lost == [Self.lost] && kept == [])
  }

  @Test func `a device that was taken out is owed nothing`() {
    let broken = Story.broken { story in
      story.accept(1, to: [1, 2])
      story.deliver(1)
      story.answer(story.invoke(.remove(DeviceIndex(2)), by: 1))
    }
    #expect(broken == [])
  }

  @Test func `a message whose sender was told that it is undeliverable is owed to nobody`() {
    let broken = Story.broken { story in
      story.connect(1)
      story.accept(1)
      story.saw(.undeliverable(MessageNumber(1), to: DeviceIndex(0)))
      story.accept(2)
      story.deliver(2)
      story.wait(100)
      story.saw(.away(DeviceIndex(1)))
    }
    #expect(broken == [])
  }

  // MARK: - Delivered is what was sent

  @Test func `a message may come again over another connection`() {
    let broken = Story.broken { story in
      story.accept(1)
      story.deliver(1, over: 1)
      story.deliver(1, over: 2)
    }
    #expect(broken == [])
  }

  @Test func `a delivery that nobody sent, or that differs from the sent message, is told`() {
    let foreign = Story.broken { $0.deliver(1) }
    let elsewhere = Story.broken { story in
      story.submit(1, to: [2])
      story.deliver(1, to: 1)
    }
    let forged = Story.broken { story in
      story.submit(1)
      story.deliver(1, from: 5)
    }
    let nameless = Story.broken { story in
      story.submit(1)
      story.deliver(1, from: nil)
    }
    let altered = Story.broken { story in
      story.submit(1)
      story.saw(
        .delivered(
          MessageNumber(1), from: DeviceIndex(0), to: DeviceIndex(1), digest: 77, over: ConnectionNumber(1)))
    }
    let twice = Story.broken { story in
      story.submit(1)
      story.deliver(1)
      story.deliver(1)
    }
    for broken in [foreign, elsewhere, forged, nameless, altered, twice] { #expect(broken == [Self.sent]) }
  }

  @Test func `a message that no client was promised may come twice when a standby takes over between`() {
    func story(_ kind: FaultKind, at site: String = "alpha", isAccepted: Bool = false, isLate: Bool = false) -> Story {
      var story = Story()
      for device in 0...1 {
        story.answer(story.invoke(.register, by: device, to: Place("alpha")))
      }
      let operation = story.submit(1)
      if isAccepted { story.answer(operation) }
      if isLate { story.fault(kind, at: site) }
      story.deliver(1)
      if !isLate { story.fault(kind, at: site) }
      story.deliver(1)
      if !isAccepted { story.answer(operation) }
      return story
    }
    #expect(story(.postgresPromoted).broken == [])
    for broken in [
      story(.postgresRestarted), story(.postgresPromoted, at: "beta"), story(.postgresPromoted, isAccepted: true),
      story(.postgresPromoted, isLate: true),
    ] { #expect(broken.broken == [Self.sent]) }
  }

  // MARK: - Order within a sender

  @Test func `messages that were under way together come in any order`() {
    let broken = Story.broken { story in
      let first = story.submit(1)
      story.accept(2)
      story.answer(first)
      story.deliver(2)
      story.deliver(1)
    }
    #expect(broken == [])
  }

  @Test func `a message that was accepted before the next was sent comes first`() {
    let broken = Story.broken { story in
      story.accept(1)
      story.accept(2)
      story.deliver(2)
      story.deliver(1)
    }
    #expect(broken == [Self.order])
  }

  @Test func `a message that turns out to be undeliverable stands before no other`() {
    func broken(_ told: Int) -> Set<String> {
      Story.broken { story in
        story.accept(1)
        story.accept(2)
        story.accept(3)
        story.deliver(3)
        for message in 1...told { story.saw(.undeliverable(MessageNumber(message), to: DeviceIndex(0))) }
      }
    }
    #expect(broken(2) == [])
    #expect(broken(1).contains(Self.order))
  }

  @Test func `between operators a message that may be held is overtaken by what comes shortly behind it`() {
    func broken(inTrouble: Bool, isSlow: Bool = false, pause: Double) -> Set<String> {
      Story.broken { story in
        story.answer(story.invoke(.register, by: 0, to: Place("alpha")))
        story.answer(story.invoke(.register, by: 1, to: Place("beta")))
        story.wait(60)
        if inTrouble { story.fault(.linkCut, at: "beta", link: .postgres) }
        let first = story.submit(1)
        if isSlow { story.wait(1) }
        story.answer(first)
        story.wait(pause)
        story.accept(2)
        story.deliver(2)
        story.deliver(1)
      }
    }
    #expect(broken(inTrouble: false, isSlow: true, pause: 1) == [])
    #expect(broken(inTrouble: false, isSlow: true, pause: 4) == [Self.order])
    #expect(broken(inTrouble: true, pause: 1) == [])
    #expect(broken(inTrouble: true, pause: 4) == [Self.order])
    #expect(broken(inTrouble: false, pause: 1) == [Self.order])
  }

  @Test func `a repeated attempt counts from its first try`() {
    let broken = Story.broken { story in
      let first = story.submit(2)
      story.accept(1)
      story.write(.unknown(first))
      story.accept(2)
      story.deliver(2)
      story.deliver(1)
    }
    #expect(broken == [])
  }

  @Test func `an attempt that is repeated after it was delivered is not waited for`() {
    let broken = Story.broken { story in
      let first = story.submit(1)
      story.deliver(1)
      story.write(.unknown(first))
      story.accept(1)
      story.accept(2)
      story.deliver(2)
    }
    #expect(broken == [])
  }

  @Test func `senders do not wait for each other, nor for what is delivered again`() {
    let broken = Story.broken { story in
      story.accept(1, by: 0)
      story.accept(2, by: 2)
      story.deliver(2, from: 2)
      story.deliver(1)
      story.accept(3)
      story.deliver(3)
      story.deliver(1, over: 2)
    }
    #expect(broken == [])
  }

  // MARK: - One-time keys

  @Test func `a last resort is handed out any number of times, a one-time key once`() {
    func key(_ number: Int) -> KeyDigest { KeyDigest(UInt64(number)) }
    func draw(_ numbers: [Int], lastResorts: Int = 0) -> Set<String> {
      Story.broken { story in
        story.answer(story.invoke(.upload(keys: [key(1), key(2)], lastResort: key(9)), by: 1))
        for number in numbers {
          story.answer(story.invoke(.draw), .keys([DrawnKey(of: DeviceIndex(1), key(number))]))
        }
        for _ in 0..<lastResorts {
          story.answer(story.invoke(.draw), .keys([DrawnKey(of: DeviceIndex(1), key(9), isLastResort: true)]))
        }
      }
    }
    #expect(draw([1, 2], lastResorts: 3) == [])
    #expect(draw([1, 2, 1]) == [Self.keys])
    #expect(draw([3]) == [Self.keys])
  }

  @Test func `a key of an upload without an answer may be handed out, another device's may not`() {
    func draw(of device: Int) -> Set<String> {
      Story.broken { story in
        story.write(.unknown(story.invoke(.upload(keys: [KeyDigest(1)], lastResort: KeyDigest(2)), by: 1)))
        story.answer(story.invoke(.draw), .keys([DrawnKey(of: DeviceIndex(device), KeyDigest(1))]))
      }
    }
    #expect(draw(of: 1) == [])
    #expect(draw(of: 2) == [Self.keys])
  }

  @Test func `a draw without an answer may have taken the key`() {
    let broken = Story.broken { story in
      story.answer(story.invoke(.upload(keys: [KeyDigest(1)], lastResort: KeyDigest(2)), by: 1))
      story.write(.unknown(story.invoke(.draw)))
      story.answer(
        story.invoke(.draw), .keys([DrawnKey(of: DeviceIndex(1), KeyDigest(2), isLastResort: true)]))
    }
    #expect(broken == [])
  }

  // MARK: - The history itself

  @Test func `an operation that never began, or begins twice, makes a history worthless`() {
    let whole = "the history is whole"
    #expect(Story.broken { $0.answer(OperationNumber(7)) } == [whole])
    let twice = Story.broken { story in
      story.submit(1)
      story.write(
        .invoked(OperationNumber(1), call: .draw, by: DeviceIndex(0), to: Place("alpha")))
    }
    #expect(twice == [whole])
  }

  @Test func `all of many violations are counted, and the first are told`() {
    var story = Story()
    for number in 1...50 { story.accept(number) }
    var checker = Checker()
    for event in story.events { checker.take(event) }
    let verdict = checker.finish().first { $0.rule == Self.lost }
    #expect(verdict?.violations.count == 50)
    #expect(verdict?.violations.first.count == 20)
  }
}
