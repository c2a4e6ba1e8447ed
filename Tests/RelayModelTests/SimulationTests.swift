import RelayCore
import TestTags
import Testing

@testable import RelayModel

/// The order of events.
@Suite(.tags(.unit)) struct EventQueueTests {
  @Test func `events come by their time, and those of one moment as they were added`() {
    var queue = EventQueue<String>()
    queue.add("late", at: .seconds(5))
    queue.add("first", at: .seconds(1))
    queue.add("second", at: .seconds(1))
    #expect(queue.next(until: .seconds(5)) == "first")
    queue.add("past", at: .zero)
    #expect(queue.next(until: .seconds(5)) == "second")
    #expect(queue.next(until: .seconds(5)) == "past")
    #expect(queue.now == .seconds(1))
    #expect(queue.next(until: .seconds(4)) == nil)
    #expect(queue.next(until: .seconds(5)) == "late")
    #expect(queue.next(until: .seconds(9)) == nil)
  }

  @Test func `quantiles are those of what was added`() {
    var waits = Waits()
    #expect(waits.quantile(0.5) == 0)
    for seconds in (1...100).reversed() { waits.add(.seconds(seconds)) }
    #expect(waits.quantile(0.5) == 51 && waits.quantile(0.99) == 100 && waits.quantile(1) == 100)
  }
}

/// A peer that is away, by the product's own breaker and outbox.
@Suite(.tags(.unit)) struct OutboxSimulationTests {
  private var short: OutboxSimulation.Settings {
    var settings = OutboxSimulation.Settings()
    (settings.awayAfter, settings.awaySeconds, settings.afterSeconds) = (10, 60, 60)
    (settings.messagesPerSecond, settings.conversations, settings.processes) = (40, 50, 3)
    return settings
  }

  @Test(arguments: [false, true], [1, 2, 3] as [UInt64])
  func `nothing is lost, and nothing is overtaken`(isSilent: Bool, seed: UInt64) throws {
    var settings = short
    (settings.isSilent, settings.seed) = (isSilent, seed)
    let outcome = try OutboxSimulation.run(settings)
    #expect(outcome.submitted > 4000)
    #expect(outcome.accounted == outcome.submitted)
    #expect(outcome.overtaken == 0 && outcome.refused == 0 && outcome.givenUp == 0)
    #expect(outcome.held > 1500)
  }

  @Test func `every process's breaker opens, and closes when the peer is back`() throws {
    let outcome = try OutboxSimulation.run(short)
    #expect(outcome.opened.count == 3 && outcome.closed.count == 3)
    // Three requests that nobody takes, a round trip each.
    #expect((outcome.opened.max() ?? .infinity) < 2)
    #expect(outcome.opened.allSatisfy { $0 >= 0 } && outcome.closed.allSatisfy { $0 >= 0 })
    // A probe comes every 3.5 s at least.
    #expect((outcome.closed.max() ?? .infinity) < 4)
    #expect(outcome.probes > 3 * 60 / 4)
    // What waits is read every two seconds, and moves at 2,000 a second.
    #expect((outcome.emptyAfter ?? .infinity) < 10)
  }

  @Test func `a silent peer is found out by three requests of ten seconds`() throws {
    var settings = short
    settings.isSilent = true
    let outcome = try OutboxSimulation.run(settings)
    let first = try #require(outcome.opened.min())
    #expect((15...40).contains(first), "\(first)")
    #expect(outcome.failedRequests >= 3)
    // Late answers come for messages that are held: the peer has them twice, and keeps one.
    #expect(outcome.accounted == outcome.submitted)
  }

  @Test func `a full outbox refuses, and what it refuses is counted`() throws {
    var settings = short
    settings.messagesMax = 500
    let outcome = try OutboxSimulation.run(settings)
    #expect(outcome.samples.map(\.value).max() == 500)
    #expect(outcome.refused > 1000)
    #expect(outcome.accounted == outcome.submitted)
  }

  @Test func `messages that are too old are given up`() throws {
    var settings = short
    settings.ageSeconds = 20
    let outcome = try OutboxSimulation.run(settings)
    #expect(outcome.givenUp > 500)
    #expect(outcome.accounted == outcome.submitted)
  }

  @Test func `a conversation beyond the peer's limit for waited messages is put off, and arrives in order`() throws {
    var settings = short
    (settings.conversations, settings.processes) = (1, 1)
    (settings.awaySeconds, settings.afterSeconds) = (120, 30)
    // 3,600 pass at once.
    let outcome = try OutboxSimulation.run(settings)
    #expect(outcome.held > 4000)
    #expect(outcome.waiting > 0 && outcome.emptyAfter == nil)
    #expect(outcome.overtaken == 0 && outcome.accounted == outcome.submitted)
  }

  @Test func `the same seed gives the same run, and another one another`() throws {
    let one = try OutboxSimulation.run(short)
    #expect(try OutboxSimulation.run(short) == one)
    var other = short
    other.seed = 2
    #expect(try OutboxSimulation.run(other) != one)
  }

  @Test func `settings that cannot be are refused`() {
    func fault(_ change: (inout OutboxSimulation.Settings) -> Void) -> String {
      var settings = OutboxSimulation.Settings()
      change(&settings)
      do { _ = try OutboxSimulation.run(settings) } catch { return "\(error)" }
      return "none"
    }
    #expect(fault { $0.processes = 0 } == "--processes goes from 1 to 1000")
    #expect(fault { $0.messagesPerSecond = 50_000 }.contains("more than 5 million messages"))
    #expect(fault { $0.awaySeconds = -1 }.contains("the times"))
  }
}

/// A push service that does not answer, by the product's own lane.
@Suite(.tags(.unit)) struct PushSimulationTests {
  private var short: PushSimulation.Settings {
    var settings = PushSimulation.Settings()
    (settings.awayAfter, settings.awaySeconds, settings.afterSeconds) = (10, 60, 400)
    (settings.wakesPerSecond, settings.devices) = (20, 20_000)
    return settings
  }

  @Test(arguments: [false, true], [WakeProvider.apns, .fcm, .webPush])
  func `nobody is forgotten, and the breaker opens`(isSilent: Bool, provider: WakeProvider) throws {
    var settings = short
    (settings.isSilent, settings.provider) = (isSilent, provider)
    let outcome = try PushSimulation.run(settings)
    #expect(outcome.accounted == outcome.asked)
    #expect(outcome.opened.count >= 1 && outcome.closed.count >= 1)
    #expect((outcome.opened.first ?? .infinity) < (isSilent ? 15 : 2))
    #expect(outcome.emptyAfter != nil)
    // Far fewer than there were to be woken.
    #expect(outcome.attemptsWhileAway < 600, "\(outcome.attemptsWhileAway)")
    #expect((outcome.samples.map(\.value).max() ?? 0) > 900)
  }

  @Test func `services that answer wait less than one that does not`() throws {
    var settings = short
    (settings.provider, settings.services) = (.webPush, 4)
    let outcome = try PushSimulation.run(settings)
    #expect(outcome.waits[0].quantile(0.99) > 10)
    // As a whole: they wait where the silent one's jobs take the places of a process.
    for service in 1...3 {
      #expect(outcome.waits[service].quantile(0.5) < 1, "\(service)")
      #expect(outcome.waits[service].quantile(0.99) < outcome.waits[0].quantile(0.99), "\(service)")
    }
  }

  @Test func `the same seed gives the same run`() throws {
    #expect(try PushSimulation.run(short) == PushSimulation.run(short))
    var other = short
    other.seed = 2
    #expect(try PushSimulation.run(other) != PushSimulation.run(short))
  }

  @Test func `settings that cannot be are refused`() {
    var settings = PushSimulation.Settings()
    settings.services = 3
    #expect(throws: ModelFailure("--services goes from 1 to 100, and is 1 without webpush")) { try settings.check() }
    settings.services = 1
    settings.awaySeconds = 90_000
    #expect(throws: ModelFailure.self) { try settings.check() }
  }
}

/// Devices that come back at once, with the client library's pauses.
@Suite(.tags(.unit)) struct ReconnectSimulationTests {
  private var short: ReconnectSimulation.Settings {
    var settings = ReconnectSimulation.Settings()
    (settings.devices, settings.processes, settings.lostProcesses) = (4000, 4, 2)
    settings.coresForConnections = 1
    return settings
  }

  @Test func `all come back, no faster than processes shake hands`() throws {
    let outcome = try ReconnectSimulation.run(short)
    #expect(outcome.lost == 2000 && outcome.connected == 4000 && outcome.apart == 0)
    // A first pause is within a second, and two processes shake some 3,700 hands a second.
    #expect((outcome.allAfter ?? .infinity) < 2)
    #expect(outcome.mostInASecond <= 3732)
    #expect(outcome.failures == 0 && outcome.attempts == 2000)
  }

  @Test func `slow processes are asked again, and longer pauses mean fewer attempts in vain`() throws {
    var slow = short
    slow.connectMillis = 50
    let patient = try ReconnectSimulation.run(slow)
    #expect(patient.apart == 0 && patient.failures > 0)
    #expect(patient.attempts == 2000 + patient.failures)
    // 2,000 connections of 50 ms at two processes.
    #expect((patient.allAfter ?? 0) >= 50)
    (slow.firstPause, slow.longestPause) = (0, 0)
    let impatient = try ReconnectSimulation.run(slow)
    #expect(impatient.failures > patient.failures)
  }

  @Test func `without room some stay apart, and no process has too many`() throws {
    var full = short
    (full.connectionsMax, full.seconds) = (1500, 300)
    let outcome = try ReconnectSimulation.run(full)
    #expect(outcome.connected == 3000 && outcome.apart == 1000 && outcome.allAfter == nil)
    #expect(outcome.failures >= 1000)
  }

  @Test func `the same seed gives the same run`() throws {
    var slow = short
    slow.connectMillis = 20
    #expect(try ReconnectSimulation.run(slow) == ReconnectSimulation.run(slow))
  }

  @Test func `some processes have to be left`() {
    var none = short
    none.lostProcesses = 4
    #expect(throws: ModelFailure("--processes goes from 2 to 10000, and some of them are left")) {
      try ReconnectSimulation.run(none)
    }
  }
}
