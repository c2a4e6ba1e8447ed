import ChildProcesses
import Foundation
import Glibc
import Logging
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing
import WireMessages

@testable import Relay

/// A process's work for all its connections.
@Suite(.tags(.processes)) struct LiveHubTests {
  private final class Session: Sendable {}

  @Test func `a session waits once for its check, and is checked again when it changes during one`() async throws {
    let isOpen = Atomic(false)
    let checked = Mutex<[ObjectIdentifier]>([])
    let checks = CredentialChecks<Session>(batchMax: 1, atOnce: 1) { sessions in
      checked.withLock { $0 += sessions.map { ObjectIdentifier($0) } }
      while !isOpen.load(ordering: .acquiring) { await Task.yield() }
    }
    let (one, two) = (Session(), Session())
    #expect(checks.add([one]).isEmpty)
    try await eventually("the first check is under way") { checked.withLock { $0.count } == 1 }
    for _ in 0..<100 { #expect(checks.add([two, one]).isEmpty) }
    isOpen.store(true, ordering: .releasing)
    let expected = [one, two, one].map { ObjectIdentifier($0) }
    try await eventually("both are checked") { checked.withLock { $0 } == expected }
  }

  @Test func `several checks run at once, and those without room are named`() async throws {
    let isOpen = Atomic(false)
    let begun = Atomic(0)
    let checks = CredentialChecks<Session>(batchMax: 1, atOnce: 3, waitingMax: 4) { sessions in
      begun.add(sessions.count, ordering: .relaxed)
      while !isOpen.load(ordering: .acquiring) { await Task.yield() }
    }
    let sessions = (0..<9).map { _ in Session() }
    #expect(checks.add(Array(sessions[..<3])).isEmpty)
    try await eventually("three are under way") { begun.load(ordering: .relaxed) == 3 }
    let refused = checks.add(Array(sessions[3...]))
    #expect(refused.map { ObjectIdentifier($0) } == sessions[7...].map { ObjectIdentifier($0) })
    isOpen.store(true, ordering: .releasing)
    try await eventually("all others are checked") { begun.load(ordering: .relaxed) == 7 }
  }

  @Test func `sessions that wait are checked together, up to a bound`() async throws {
    let isOpen = Atomic(false)
    let batches = Mutex<[[ObjectIdentifier]]>([])
    let checks = CredentialChecks<Session>(batchMax: 3, atOnce: 1) { sessions in
      batches.withLock { $0.append(sessions.map { ObjectIdentifier($0) }) }
      while !isOpen.load(ordering: .acquiring) { await Task.yield() }
    }
    let sessions = (0..<9).map { _ in Session() }
    #expect(checks.add([sessions[0]]).isEmpty)
    try await eventually("the first check is under way") { batches.withLock { $0.count } == 1 }
    for session in sessions.dropFirst() { #expect(checks.add([session]).isEmpty) }
    isOpen.store(true, ordering: .releasing)
    try await eventually("all are checked") { batches.withLock { $0.joined().count } == 9 }
    #expect(batches.withLock { $0.map(\.count) } == [1, 3, 3, 2])
    #expect(batches.withLock { Array($0.joined()) } == sessions.map { ObjectIdentifier($0) })
  }

  @Test func `a device that stays connected is seen each day, and not all at midnight`() async throws {
    let path = NSTemporaryDirectory() + "relay-hub-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover in the temporary folder hurts nobody.
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let now = Atomic<Int64>(1_700_000_000_000)
    let clock = WallClock { Timestamp(millis: now.load(ordering: .relaxed)) }
    let store = try SQLiteStorage(path: path + "/relay.sqlite", clock: clock)
    try await store.migrate { _ in }
    let accounts = AccountCache(store: store, bus: LocalCoordination(buckets: [:], clock: clock))
    let name = try #require(RelayName("gamma"))
    let number = try await ProbeAccount(name: name, store: store, accounts: accounts, clock: clock).prepare()
    let lastSeen = LastSeen(
      store: store, accounts: accounts, clock: clock, gathering: .zero, logger: Logger(label: "test"))
    let address = DeviceAddress(number, .master)
    let device = try #require(try await store.account(number)?.device(.master))

    let midnight = clock.now().startOfDay.millis + 86_400_000
    func dueDay(at millis: Int64, draw: UInt64) -> Int64? {
      now.store(millis, ordering: .relaxed)
      return lastSeen.dueDay(of: device, draw: draw)?.millis
    }
    #expect(dueDay(at: midnight - 1, draw: 0) == nil)
    #expect(dueDay(at: midnight, draw: 3_599_999) == nil)
    #expect(dueDay(at: midnight + 3_599_998, draw: .max / 3_600_000 * 3_600_000 - 1) == nil)
    #expect(dueDay(at: midnight + 3_599_999, draw: 3_599_999) == midnight)

    // The cache knows what was noted, and so nothing is noted again.
    #expect(try await accounts.account(number)?.device(.master)?.lastSeen == device.lastSeen)
    lastSeen.noteStaying(device, at: address, draw: 3_599_999)
    try await eventually("the day is noted") {
      try await store.account(number)?.device(.master)?.lastSeen.millis == midnight
    }
    try await eventually("the cache knows it") {
      try await accounts.account(number)?.device(.master)?.lastSeen.millis == midnight
    }
    let known = try #require(try await accounts.account(number)?.device(.master))
    #expect(lastSeen.dueDay(of: known, draw: 3_599_999) == nil)
    await store.close()
  }

  @Test func `a request over a socket before SIGTERM is answered, however long it takes`() async throws {
    let (listener, port) = try Loopback.listen()
    defer { close(listener) }
    let settings = [
      "RELAY_VERIFICATION_SENDER": "webhook", "RELAY_VERIFICATION_WEBHOOK_URL": "http://127.0.0.1:\(port)/codes",
      "RELAY_VERIFICATION_WEBHOOK_SECRET": "hush-hush",
    ]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let first = try await site.serve()
      let device = try await first.registerLive()
      #expect(await first.terminate() == .code(0))

      // Its requests for codes take as long as the test wants.
      let relay = try await site.serve(settings)
      let socket = try await relay.open(device)
      try await socket.ask("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())", id: 7)
      let webhook = try await Loopback.blocking { accept(listener, nil, nil) }
      defer { close(webhook) }
      relay.child.send(SIGTERM)
      try await eventually("it drains") { relay.log().contains("draining") }
      try await Task.sleep(for: .seconds(2))
      #expect(relay.child.exit == nil)
      // Requests that come now are for another process.
      try await socket.ask("GET", "/v1/keys", id: 8)
      #expect(try await socket.response().status == 503)
      let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
      #expect(send(webhook, answer, answer.count, Int32(MSG_NOSIGNAL)) == answer.count)
      let response = try await socket.response()
      #expect(response.id == 7 && response.status == 200)
      #expect(try await socket.raw.closeCode() == 1012)
      #expect(await relay.exit() == .code(0))
    }
  }
}
