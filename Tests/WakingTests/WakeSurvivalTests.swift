import ChildProcesses
import Foundation
import Logging
import RelayClient
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Processes that die between a message and its push.
@Suite(.tags(.processes)) struct WakeSurvivalTests {
  @Test func `work that a dying process leaves behind is carried out by others`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url), settings: waking.settings()
        ) { site in
          try await site.relay("migrate", "run")
          try await Self.survive(site, database, waking)
        }
      }
    }
  }

  @Test func `a process without a provider's keys leaves its devices to processes that have them`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url), settings: waking.settings([])
        ) { site in
          try await site.relay("migrate", "run")
          try await Self.share(site, database, waking)
        }
      }
    }
  }

  @Test func `a claim whose answer was lost keeps nobody waiting until it ends`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      let link = try await LinkProxy(to: postgres.port)
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url), settings: waking.settings([.google])
        ) { site in
          try await site.relay("migrate", "run")
          try await Self.loseAnswer(
            site, database, by: link,
            ["RELAY_STORAGE_URL": database.replacing(":\(postgres.port)/", with: ":\(link.port)/")], waking)
        }
      }
      try await link.close()
    }
  }

  private static func loseAnswer(
    _ site: RelayOperator, _ database: String, by link: LinkProxy, _ settings: [String: String], _ waking: WakingSite
  ) async throws {
    let relay = try await site.serve(settings)
    let (sender, device) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
    try await device.register(gcm: "token", at: relay)
    try await withStore(database) { store in
      link.set(.cut, [.back])
      try await store.append([Envelope(for: device, from: sender)])
      let ask = WakeAsk(try device.address)
      #expect(
        try await store.askToWake(
          [ask], afterForgetting: [], WakeTerms(providers: [.fcm], lifetime: .seconds(3600))) == 1)
      let claim = try await eventually("it is claimed", within: .seconds(60)) {
        try await store.waitingWake(of: device.address).flatMap { $0.isClaimed ? $0 : nil }
      }
      link.endAll()
      link.set(.whole)
      try await eventually("it is woken", within: .seconds(120)) { waking.pushes(toGoogle: "token").count == 1 }
      #expect(Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) < claim.due, "before the claim would end")
    }
    #expect(await relay.terminate() == .code(0))
  }

  @Test func `a device that left while its process did not reach Redis is woken all the same`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await RedisServer.with { redis in
        let link = try await LinkProxy(to: redis.port)
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url),
          settings: waking.settings([.google], ["RELAY_PUSH_PAUSE_SECONDS": "0"])
        ) { site in
          try await site.relay("migrate", "run")
          let behindLink = redis.url.replacing(":\(redis.port)", with: ":\(link.port)")
          try await Self.leaveBehind(site, link, ["RELAY_COORDINATION_URL": behindLink], redis, waking)
        }
        try await link.close()
      }
    }
  }

  /// The device's entry stays in Redis, and names the process that held it.
  private static func leaveBehind(
    _ site: RelayOperator, _ link: LinkProxy, _ settings: [String: String], _ redis: RedisServer,
    _ waking: WakingSite
  ) async throws {
    let (first, second) = (try await site.serve(), try await site.serve(settings))
    let (sender, device) = (try await WokenDevice(at: first), try await WokenDevice(at: second))
    try await device.register(gcm: "token", at: second)
    let live = try await device.client.connect(signalingKey: device.key)
    #expect(try await sender.send(to: device, at: first, timestamp: 1) == 200)
    for try await delivery in live.deliveries {
      try await delivery.acknowledge()
      break
    }
    // Both hear wake-ups: one has just been heard.
    let channels = try redis.channelCount()
    link.set(.cut)
    await live.close()
    try await eventually("nobody is connected") { try await second.metric("relay_connections{kind=\"device\"}") == 0 }
    try await second.untilCoordination(isAvailable: false)
    // Its words of that time never arrive.
    link.endAll()
    link.set(.whole)
    try await second.untilCoordination(isAvailable: true)
    // It takes commands, and has to hear again too.
    try await eventually("it hears wake-ups") { try redis.channelCount() == channels }

    let before = waking.pushes(toGoogle: "token").count
    #expect(try await sender.send(to: device, at: first, timestamp: 2) == 200)
    try await eventually("it is woken", within: .seconds(120)) { waking.pushes(toGoogle: "token").count > before }
    #expect(try await second.metric(#"relay_wakeups_total{how="stray"}"#) == 1, "not by its entry's end, or the sweep")
    for relay in [first, second] { #expect(await relay.terminate() == .code(0)) }
  }

  private static func share(_ site: RelayOperator, _ database: String, _ waking: WakingSite) async throws {
    let google = waking.settings([.google])
    let first = try await site.serve(google)
    let keyless = try await site.serve()
    let (sender, told, swept) = (
      try await WokenDevice(at: keyless), try await WokenDevice(at: keyless), try await WokenDevice(at: keyless)
    )
    try await told.register(gcm: "token-told", at: keyless)
    try await swept.register(gcm: "token-swept", at: keyless)
    #expect(try await sender.send(to: told, at: keyless) == 200)
    try await eventually("it is woken by the process that can", within: .seconds(300)) {
      waking.pushes(toGoogle: "token-told").count == 1
    }
    #expect(await first.terminate() == .code(0))

    // The sweep is the keyless process's now, and passes over nobody.
    try await store(Envelope(for: swept, from: sender), in: database)
    try await eventually("the sweep has found it", within: .seconds(300), every: .milliseconds(300)) {
      try await keyless.metric(#"relay_wakes_asked_total{by="sweep"}"#) == 1
    }
    let second = try await site.serve(google)
    try await eventually("it is woken, too", within: .seconds(300)) {
      waking.pushes(toGoogle: "token-swept").count == 1
    }
    for process in [keyless, second] { #expect(await process.terminate() == .code(0)) }
  }

  @Test func `a job whose device has another provider by now goes to those that have its keys`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url), settings: waking.settings([])
        ) { site in
          try await site.relay("migrate", "run")
          let google = try await site.serve(waking.settings([.google]))
          let apple = try await site.serve(waking.settings([.apple]))
          let (sender, device) = (try await WokenDevice(at: apple), try await WokenDevice(at: apple))
          waking.apns.service.answerAlways(.answer(503, #"{"reason":"ServiceUnavailable"}"#))
          let token = String(repeating: "ab", count: 32)
          try await device.register(apn: token, at: apple)
          #expect(try await sender.send(to: device, at: apple) == 200)
          try await eventually("it was tried", within: .seconds(120)) { !waking.pushes(toApple: token).isEmpty }
          try await device.register(gcm: "token-moved", at: apple)
          try await eventually("it is woken by its provider", within: .seconds(120)) {
            waking.pushes(toGoogle: "token-moved").count == 1
          }
          for process in [google, apple] { #expect(await process.terminate() == .code(0)) }
        }
      }
    }
  }

  /// As a process would that dies before it has told anybody.
  private static func store(_ envelope: Envelope, in database: String) async throws {
    try await withStore(database) { try await $0.append([envelope]) }
  }

  private static func withStore(_ database: String, _ body: (PostgresStorage) async throws -> Void) async throws {
    let storage = try PostgresStorage(url: database, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    // A machine that starts many tests takes longer to connect than a call waits.
    try await eventually("the store answers") { (try? await storage.ping()) != nil }
    try await body(storage)
    await storage.close()
  }

  private static func survive(_ site: RelayOperator, _ database: String, _ waking: WakingSite) async throws {
    let first = try await site.serve()
    let (sender, claimed, stored) = (
      try await WokenDevice(at: first), try await WokenDevice(at: first), try await WokenDevice(at: first)
    )
    try await claimed.register(gcm: "token-claimed", at: first)
    try await stored.register(gcm: "token-stored", at: first)

    // It dies with a push under way, of which nobody will hear how it ended.
    waking.fcm.service.answer(.silence)
    #expect(try await sender.send(to: claimed, at: first) == 200)
    try await eventually("the push is under way") { waking.pushes(toGoogle: "token-claimed").count == 1 }
    await first.kill9()

    // And with a message that it had stored, and told nobody of.
    try await store(Envelope(for: stored, from: sender), in: database)

    let second = try await site.serve()
    try await eventually("both are woken by another process", within: .seconds(300), every: .milliseconds(100)) {
      waking.pushes(toGoogle: "token-claimed").count == 2 && waking.pushes(toGoogle: "token-stored").count == 1
    }
    try await eventually("the second attempt is written down", every: .milliseconds(300)) {
      try await WakingTests.history(of: claimed, site).first?.number == 2
    }
    try await eventually("the sweep is counted") {
      try await second.metric(#"relay_wakes_asked_total{by="sweep"}"#) == 1
    }
    #expect(await second.terminate() == .code(0))
  }

  @Test func `a device that is connected to another process is not woken, and one that left it is`() async throws {
    try await WakingSite.with { waking in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await RedisServer.with { redis in
        try await RelayOperator.with(
          stores: .servers(storage: database, coordination: redis.url),
          settings: waking.settings([.google], ["RELAY_PUSH_PAUSE_SECONDS": "0"])
        ) { site in
          try await site.relay("migrate", "run")
          try await Self.wakeAcross(site, waking)
        }
      }
    }
  }

  private static func wakeAcross(_ site: RelayOperator, _ waking: WakingSite) async throws {
    let (first, second) = (try await site.serve(), try await site.serve())
    let (sender, device) = (try await WokenDevice(at: first), try await WokenDevice(at: second))
    try await device.register(gcm: "token", at: second)
    let live = try await device.client.connect(signalingKey: device.key)
    // Until it is known to the other process it may be taken for absent: who is told over the connection is not pushed
    // to.
    #expect(try await sender.send(to: device, at: first, timestamp: 1) == 200)
    for try await delivery in live.deliveries {
      try await delivery.acknowledge()
      break
    }
    let before = waking.pushes(toGoogle: "token").count
    #expect(try await sender.send(to: device, at: first, timestamp: 2) == 200)
    for try await delivery in live.deliveries {
      try await delivery.acknowledge()
      break
    }
    await live.close()
    try await eventually("nobody is connected") { try await second.metric("relay_connections{kind=\"device\"}") == 0 }
    #expect(waking.pushes(toGoogle: "token").count == before)
    try await eventually("it is woken when it has left", every: .milliseconds(300)) {
      // The entry of the connection that has ended may take a moment to go.
      try await sender.send(to: device, at: first, timestamp: Int64.random(in: 10...1_000_000))
      return waking.pushes(toGoogle: "token").count > before
    }
    for relay in [first, second] { #expect(await relay.terminate() == .code(0)) }
  }
}

extension Envelope {
  fileprivate init(for recipient: WokenDevice, from sender: WokenDevice) throws {
    try self.init(
      destination: recipient.address, type: .ciphertext, source: sender.address, relay: nil,
      timestamp: Timestamp(millis: 1), message: [1, 2, 3], content: nil, fingerprint: Fingerprint(high: 1, low: 2))
  }
}
