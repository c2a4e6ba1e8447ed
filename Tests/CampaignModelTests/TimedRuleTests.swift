import CampaignModel
import TestTags
import Testing

/// Rules about what must have happened by some time, or how often within one.
@Suite(.tags(.unit)) struct TimedRuleTests {
  private static let one = "one live connection a device"
  private static let deaf = "nobody deaf, unwoken or shut out"
  private static let refused = "nobody is refused when all is whole"
  private static let receipts = "receipts neither forged nor lost"
  private static let limits = "limits are kept"
  private static let resources = "memory and descriptors return"

  // MARK: - One live connection

  @Test func `a newer connection ends the older with 1000`() {
    let broken = Story.broken { story in
      story.connect(1)
      story.connect(2)
      story.end(1, code: 1000)
      story.wait(60)
      story.end(2)
    }
    #expect(broken == [])
  }

  @Test func `two attempts at once: either may be the older`() {
    let broken = Story.broken { story in
      let first = story.invoke(.connect(ConnectionNumber(1)), by: 1)
      story.connect(2)
      story.answer(first)
      story.end(2, code: 1000)
    }
    #expect(broken == [])
  }

  @Test func `an attempt without an answer may have displaced`() {
    let broken = Story.broken { story in
      story.connect(1)
      story.write(.unknown(story.invoke(.connect(ConnectionNumber(2)), by: 1)))
      story.end(1, code: 1000)
    }
    #expect(broken == [])
  }

  @Test func `a device that was taken out may be displaced by who has its address now`() {
    let broken = Story.broken { story in
      story.connect(1)
      story.answer(story.invoke(.remove(DeviceIndex(1)), by: 0))
      story.end(1, code: 1000)
    }
    #expect(broken == [])
  }

  @Test func `a 1000 that no newer connection explains is told`() {
    let alone = Story.broken { story in
      story.connect(1)
      story.end(1, code: 1000)
    }
    let newest = Story.broken { story in
      story.connect(1)
      story.connect(2)
      story.end(2, code: 1000)
    }
    let refused = Story.broken { story in
      story.connect(1)
      story.answer(story.invoke(.connect(ConnectionNumber(2)), by: 1), .refused(status: 503))
      story.end(1, code: 1000)
    }
    for broken in [alone, newest, refused] { #expect(broken == [Self.one]) }
  }

  @Test func `two connections live for no longer than 30 s after the last fault`() {
    func two(for seconds: Double, behind fault: Double = 0) -> Set<String> {
      Story.broken { story in
        story.connect(1)
        story.connect(2)
        if fault > 0 { story.fault(.linkCut, lasting: fault) }
        story.wait(seconds)
        story.end(1, code: 1000)
      }
    }
    #expect(two(for: 20) == [])
    #expect(two(for: 40) == [Self.one])
    #expect(two(for: 20, behind: 100) == [])
    #expect(two(for: 40, behind: 100) == [Self.one])
  }

  // MARK: - Nobody refused

  @Test func `a submission is served when all has been whole for 30 s`() {
    func answered(_ status: Int, after seconds: Double, by fault: FaultKind? = nil) -> Set<String> {
      Story.broken { story in
        story.fault(.postgresRestarted)
        story.wait(seconds)
        let operation = story.submit(1)
        if let fault { story.fault(fault) }
        story.answer(operation, .refused(status: status))
      }
    }
    #expect(answered(503, after: 20) == [])
    #expect(answered(503, after: 40) == [Self.refused])
    #expect(answered(413, after: 40) == [])
    #expect(answered(503, after: 40, by: .redisRestarted) == [], "it may have been the fault's")
    let unanswered = Story.broken { story in
      story.wait(40)
      story.write(.unknown(story.submit(1)))
    }
    #expect(unanswered == [])
  }

  // MARK: - Nobody deaf

  @Test func `a connected device gets within 30 s what was accepted`() {
    func delivered(after seconds: Double) -> Set<String> {
      Story.broken { story in
        story.connect(1)
        story.accept(1)
        story.wait(seconds)
        story.deliver(1)
      }
    }
    #expect(delivered(after: 20) == [])
    #expect(delivered(after: 40) == [Self.deaf])
  }

  @Test func `faults excuse deafness for 30 s after the last of them`() {
    func delivered(after seconds: Double) -> Set<String> {
      Story.broken { story in
        story.connect(1)
        story.accept(1)
        story.fault(.redisRestarted, lasting: 200)
        story.wait(seconds)
        story.deliver(1)
      }
    }
    #expect(delivered(after: 20) == [])
    #expect(delivered(after: 45) == [Self.deaf])
  }

  @Test func `a device that reads slowly is not deaf, nor one that is away or was taken out`() {
    let slow = Story.broken { story in
      story.connect(1)
      for number in 1...5 { story.accept(number) }
      for number in 1...5 {
        story.wait(20)
        story.deliver(number)
      }
    }
    let away = Story.broken { story in
      story.connect(1)
      story.end(1)
      story.saw(.away(DeviceIndex(1)))
      story.accept(1)
      story.wait(100)
      story.connect(2)
      story.deliver(1, over: 2)
    }
    let removed = Story.broken { story in
      story.connect(1)
      story.accept(1, to: [1, 2])
      story.deliver(1, to: 2, over: 2)
      story.answer(story.invoke(.remove(DeviceIndex(1)), by: 2))
      story.wait(100)
      story.saw(.away(DeviceIndex(2)))
    }
    #expect(slow == [] && away == [] && removed == [])
  }

  @Test func `a device that tries to connect and cannot is shut out`() {
    func connected(after seconds: Double) -> Set<String> {
      Story.broken { story in
        story.answer(story.invoke(.connect(ConnectionNumber(1)), by: 1), .refused(status: 503))
        story.wait(seconds)
        story.connect(2)
      }
    }
    #expect(connected(after: 25) == [])
    #expect(connected(after: 40) == [Self.deaf])
  }

  @Test func `a device that is away is woken by push within 30 s, where it asked for it`() {
    func woken(after seconds: Double?, asked: Bool = true) -> Set<String> {
      Story.broken { story in
        if asked { story.saw(.wakes(DeviceIndex(1))) }
        story.connect(1)
        story.end(1)
        story.saw(.away(DeviceIndex(1)))
        story.accept(1)
        story.wait(seconds ?? 60)
        if seconds != nil { story.saw(.woken(DeviceIndex(1))) }
        story.saw(.waiting(MessageNumber(1), for: DeviceIndex(1)))
      }
    }
    #expect(woken(after: 20) == [])
    #expect(woken(after: nil, asked: false) == [])
    #expect(woken(after: nil) == [Self.deaf])
  }

  // MARK: - Receipts

  private static func exchange(_ story: inout Story, _ message: Int = 1) {
    story.accept(message)
    story.deliver(message)
    story.acknowledge(message)
  }

  @Test func `an acknowledgement is told once, and may be told again over another connection`() {
    let broken = Story.broken { story in
      Self.exchange(&story)
      story.receipt(1)
      story.receipt(1)
      story.wait(30)
    }
    #expect(broken == [])
  }

  @Test func `a receipt that nobody acknowledged is forged`() {
    let never = Story.broken { story in
      story.accept(1)
      story.deliver(1)
      story.receipt(1)
    }
    let other = Story.broken { story in
      Self.exchange(&story)
      story.receipt(1)
      story.receipt(1, of: 2)
    }
    #expect(never == [Self.receipts] && other == [Self.receipts])
  }

  @Test func `a receipt that never comes is lost, unless the relay counted it`() {
    let lost = Story.broken { story in
      Self.exchange(&story)
      story.wait(60)
      story.saw(.away(DeviceIndex(0)))
    }
    let counted = Story.broken { story in
      Self.exchange(&story)
      story.wait(60)
      story.saw(.receiptsDropped(1, at: Place("alpha", 0)))
    }
    let miscounted = Story.broken { story in
      Self.exchange(&story, 1)
      Self.exchange(&story, 2)
      story.wait(60)
      story.saw(.receiptsDropped(1, at: Place("alpha", 0)))
    }
    #expect(lost == [Self.receipts] && counted == [] && miscounted == [Self.receipts])
  }

  @Test func `a process that is killed may take receipts with it, one that was stored it may not`() {
    let killed = Story.broken { story in
      Self.exchange(&story)
      story.fault(.processKilled)
      story.wait(60)
      story.saw(.away(DeviceIndex(0)))
    }
    let longBefore = Story.broken { story in
      Self.exchange(&story)
      story.wait(60)
      story.saw(.away(DeviceIndex(0)))
      story.fault(.processKilled)
      story.wait(60)
      story.saw(.away(DeviceIndex(0)))
    }
    let storesOnly = Story.broken { story in
      Self.exchange(&story)
      story.fault(.postgresCrashed)
      story.wait(60)
      story.saw(.away(DeviceIndex(0)))
    }
    #expect(killed == [] && longBefore == [Self.receipts] && storesOnly == [Self.receipts])
  }

  @Test func `a message that comes again, or still waits, was not acknowledged`() {
    let waits = Story.broken { story in
      Self.exchange(&story)
      story.wait(60)
      story.saw(.waiting(MessageNumber(1), for: DeviceIndex(1)))
    }
    let again = Story.broken { story in
      Self.exchange(&story)
      story.deliver(1, over: 2)
      story.acknowledge(1)
      story.receipt(1)
    }
    #expect(waits == [] && again == [])
  }

  // MARK: - Limits

  /// Five at once, and six a minute from then on.
  private static func flood(_ count: Int, every seconds: Double, fault: FaultKind? = nil) -> Set<String> {
    Story.broken { story in
      story.saw(.limit(bucket: "prekeys", size: 5, perMinute: 6, processes: 3))
      for number in 1...count {
        story.wait(seconds)
        if let fault, number == 6 { story.fault(fault) }
        story.answer(story.invoke(.charge(bucket: "prekeys")))
      }
    }
  }

  @Test func `a limiter lets its size pass at once, and its rate from then on`() {
    #expect(Self.flood(5, every: 0) == [])
    #expect(Self.flood(40, every: 9) == [])
    #expect(Self.flood(12, every: 0) == [Self.limits])
    #expect(Self.flood(40, every: 2) == [Self.limits])
  }

  @Test func `a refused request was not granted, and one without an answer is not known to be`() {
    let broken = Story.broken { story in
      story.saw(.limit(bucket: "prekeys", size: 5, perMinute: 6, processes: 3))
      for _ in 1...5 { story.answer(story.invoke(.charge(bucket: "prekeys"))) }
      for _ in 1...20 { story.answer(story.invoke(.charge(bucket: "prekeys")), .refused(status: 413)) }
      for _ in 1...20 { story.write(.unknown(story.invoke(.charge(bucket: "prekeys")))) }
    }
    #expect(broken == [])
  }

  @Test func `coordination that lost its data counts anew, once a loss`() {
    #expect(Self.flood(10, every: 0, fault: .redisFlushed) == [])
    #expect(Self.flood(40, every: 0, fault: .redisFlushed) == [Self.limits])
    #expect(Self.flood(12, every: 0, fault: .postgresCrashed) == [Self.limits])
  }

  // MARK: - Resources

  private static func measured(_ after: (mebibytes: Int, descriptors: Int), hasBaseline: Bool = true) -> Set<String> {
    Story.broken { story in
      let place = Place("alpha", 0)
      if hasBaseline { story.saw(.measured(place, bytes: 100 << 20, descriptors: 50, isFinal: false)) }
      story.saw(
        .measured(place, bytes: after.mebibytes << 20, descriptors: after.descriptors, isFinal: true))
    }
  }

  @Test func `a process has at rest what it had before`() {
    #expect(measured((110, 55)) == [])
    #expect(measured((180, 80)) == [])
    #expect(measured((300, 50)) == [Self.resources])
    #expect(measured((100, 500)) == [Self.resources])
    #expect(Self.measured((100, 50), hasBaseline: false) == [Self.resources])
  }

  @Test func `a process that dies, and an answer that no document knows, is told`() {
    let died = Story.broken { $0.saw(.died(Place("alpha", 1), how: "it was ended by signal 4")) }
    let odd = Story.broken { $0.saw(.odd("a send was answered with 500")) }
    #expect(died == ["no process dies, no answer is odd"] && odd == died)
  }

  private func measured(_ after: (mebibytes: Int, descriptors: Int)) -> Set<String> { Self.measured(after) }
}
