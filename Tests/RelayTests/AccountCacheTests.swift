import Foundation
import RelayCore
import RelayHTTP
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// The cache of accounts, with and without signals of their changes.
@Suite(.tags(.stores)) struct AccountCacheTests {
  @Test func `while signals arrive an account is kept, and read again after a signal`() async throws {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus)
      site.bus.post(.connected)
      #expect(try await cache.account(site.known)?.voice == false)
      #expect(try await cache.account(site.unknown) == nil)
      try await site.setVoice(true)
      #expect(try await cache.account(site.known)?.voice == false)
      site.bus.post(.signal(.accountChanged(site.known)))
      #expect(try await cache.account(site.known)?.voice == true)
    }
  }

  @Test func `while no signals arrive an account is kept for a moment`() async throws {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus, awayLifetime: .seconds(3600))
      #expect(try await cache.account(site.known)?.voice == false)
      try await site.setVoice(true)
      #expect(try await cache.account(site.known)?.voice == false)
      // A change that this process makes itself is seen at once.
      await cache.changed(site.known)
      #expect(try await cache.account(site.known)?.voice == true)
      // And so are those that were missed, once signals arrive again.
      try await site.setVoice(false)
      site.bus.post(.connected)
      #expect(try await cache.account(site.known)?.voice == false)
    }
  }

  @Test func `while no signals arrive an account that does not exist is looked for each time`() async throws {
    try await Self.with(hasAccount: false) { site in
      let cache = AccountCache(store: site.store, bus: site.bus, awayLifetime: .seconds(3600))
      #expect(try await cache.account(site.known) == nil)
      try await site.addAccount()
      #expect(try await cache.account(site.known) != nil)
    }
  }

  @Test func `while no signals arrive an entry that has passed its moment is read again`() async throws {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus, awayLifetime: .zero)
      #expect(try await cache.account(site.known)?.voice == false)
      try await site.setVoice(true)
      #expect(try await cache.account(site.known)?.voice == true)
    }
  }

  @Test func `while no signals arrive a device that was registered anew elsewhere is not refused by what is kept`()
    async throws
  {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus, awayLifetime: .seconds(3600))
      try await site.register(password: "former")
      let former = try site.credentials("former")
      #expect(try await cache.caller(former).address.account == site.known)
      try await site.register(password: "present")
      #expect(try await cache.caller(site.credentials("present")).address.account == site.known)
      // And what was learned counts: the former is refused, by one read.
      for refused in [former, try site.credentials("neither")] {
        let refusal = await #expect(throws: Problem.self) { _ = try await cache.caller(refused) }
        #expect(refusal?.kind == .unauthorized)
      }
    }
  }

  @Test func `while signals arrive nobody is refused for one that is late, and wrong passwords cost no read each`()
    async throws
  {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus, doubtInterval: .seconds(3600))
      site.bus.post(.connected)
      try await site.register(password: "former")
      #expect(try await cache.caller(site.credentials("former")).address.account == site.known)
      try await site.register(password: "present")
      #expect(try await cache.caller(site.credentials("present")).address.account == site.known)
      // Somebody was in doubt already: what comes next without a signal is not looked for.
      try await site.register(password: "next")
      for refused in ["former", "neither", "next"] {
        let refusal = await #expect(throws: Problem.self) { _ = try await cache.caller(site.credentials(refused)) }
        #expect(refusal?.kind == .unauthorized)
      }
      site.bus.post(.signal(.accountChanged(site.known)))
      #expect(try await cache.caller(site.credentials("next")).address.account == site.known)
    }
  }

  @Test func `many accounts are those of the cache and of the store, and those that do not exist are none`()
    async throws
  {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus)
      site.bus.post(.connected)
      _ = try await cache.account(site.known)
      try await site.setVoice(true)
      let many = await cache.accounts([site.known, site.unknown])
      #expect(many.found[site.known]?.voice == false, "it is remembered")
      #expect(many.found[site.unknown] == nil && many.unread.isEmpty)
      site.bus.post(.signal(.accountChanged(site.known)))
      #expect(await cache.accounts([site.known]).found[site.known]?.voice == true)
      #expect(await cache.accounts([]).found.isEmpty)
    }
  }

  @Test func `what is read again renews what is remembered, and makes nothing else remembered`() async throws {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus)
      site.bus.post(.connected)
      #expect(await cache.readAgain([site.known]).found[site.known]?.voice == false)
      try await site.setVoice(true)
      #expect(try await cache.account(site.known)?.voice == true, "it was not remembered")
      try await site.setVoice(false)
      #expect(await cache.readAgain([site.known]).found[site.known]?.voice == false)
      #expect(try await cache.account(site.known)?.voice == false, "it is renewed")
    }
  }

  @Test func `an account that is damaged hides no other, and a store that is away says nothing of any`() async throws {
    try await Self.with { site in
      let cache = AccountCache(store: site.store, bus: site.bus)
      let damaged = try #require(AccountNumber(e164: "+14155550103"))
      try await site.register(damaged, password: "secret")
      try SQLiteDatabase.execute("UPDATE devices SET device = 0 WHERE account = \(damaged.digits)", at: site.path)
      let many = await cache.readAgain([site.known, site.unknown, damaged])
      #expect(Set(many.found.keys) == [site.known] && many.unread == [damaged])
      await site.store.close()
      let away = await cache.readAgain([site.known, site.unknown])
      #expect(away.found.isEmpty && away.unread == [site.known, site.unknown])
    }
  }

  /// A store with one account, and a bus that says what a test has it say.
  private struct Site {
    let store: SQLiteStorage
    let path: String
    let bus = SwitchedBus()
    let known: AccountNumber
    let unknown: AccountNumber
    fileprivate let clock: WallClock
    fileprivate let relay: RelayName

    func addAccount() async throws {
      // Through a cache of its own: the one that is tested hears nothing of it.
      let accounts = AccountCache(store: store, bus: LocalCoordination(buckets: [:], clock: clock))
      let number = try await ProbeAccount(name: relay, store: store, accounts: accounts, clock: clock).prepare()
      #expect(number == known)
    }

    /// As another process would.
    func register(password: String) async throws { try await register(known, password: password) }

    func register(_ number: AccountNumber, password: String) async throws {
      let device = Device(
        id: .master, password: Passwords.hash(Secret(password)), signalingKey: Secret("key"), registrationID: 1,
        fetchesMessages: true, lastSeen: clock.now().startOfDay, created: clock.now())
      let registration = Registration(
        number: number, token: ContactTokens.token(of: number), device: device, supportsSMS: false, voice: false,
        respectsClaims: false)
      _ = try await store.register(registration, proof: .trusted, now: clock.now())
    }

    func credentials(_ password: String) throws -> BasicCredentials {
      try #require(BasicCredentials(user: known.e164, password: Secret(password)))
    }

    func setVoice(_ voice: Bool) async throws {
      var change = DeviceChange()
      change.voice = .set(voice)
      #expect(try await store.updateDevice(DeviceAddress(known, .master), change))
    }
  }

  private static func with(hasAccount: Bool = true, _ body: (Site) async throws -> Void) async throws {
    let path = NSTemporaryDirectory() + "relay-accounts-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover in the temporary folder hurts nobody.
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let clock = WallClock { Timestamp(millis: 1_700_000_000_000) }
    let store = try SQLiteStorage(path: path + "/relay.sqlite", clock: clock)
    try await store.migrate { _ in }
    let relay = try #require(RelayName("gamma"))
    let site = Site(
      store: store, path: path + "/relay.sqlite", known: try #require(ProbeAccount.number(of: relay)),
      unknown: try #require(AccountNumber(e164: "+14155550102")), clock: clock, relay: relay)
    if hasAccount { try await site.addAccount() }
    try await body(site)
    await store.close()
  }
}

private final class SwitchedBus: SignalBus {
  private let handlers = Mutex<[@Sendable (SignalEvent) -> Void]>([])

  func post(_ event: SignalEvent) { for handler in handlers.withLock({ $0 }) { handler(event) } }
  func publish(_ signal: Signal) async {}
  func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) { handlers.withLock { $0.append(handler) } }
}
