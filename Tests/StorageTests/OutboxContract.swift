import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

extension Sample {
  /// A message of account `source` for device 1 and 2 of account `destination`, `bytes` of them in all.
  static func outgoing(
    _ id: Int, from source: Int = 1, device: Int64 = 1, to destination: Int = 100, at relay: String = "beta",
    bytes: Int = 10, coverage: Submission.Coverage = .activeDevices
  ) throws -> PeerSubmission {
    let messages = try [
      SubmittedMessage(
        type: .preKeyBundle, device: self.device(1), registrationID: 7, body: nil,
        content: Array(repeating: UInt8(id & 255), count: bytes - 1)),
      SubmittedMessage(type: .ciphertext, device: self.device(2), registrationID: 0, body: [255], content: nil),
    ]
    return try PeerSubmission(
      relay: self.relay(relay), source: address(source, device: device),
      submission: Submission(
        destination: number(destination), messages: messages, timestamp: Timestamp(millis: noon.millis + Int64(id)),
        coverage: coverage))
  }

  static let roomy = OutboxBounds(messagesMax: 1000, bytesMax: 1 << 30, age: .seconds(3600))
}

extension Store {
  func hold(_ message: PeerSubmission, _ bounds: OutboxBounds = Sample.roomy) async throws -> Bool {
    try await storage.hold([message], for: message.relay, bounds: bounds, now: now) == [true]
  }

  /// Together.
  func hold(_ messages: [PeerSubmission], _ bounds: OutboxBounds = Sample.roomy) async throws -> [Bool] {
    try await storage.hold(messages, for: Sample.relay("beta"), bounds: bounds, now: now)
  }

  /// All that waits for `relay`, read in pages of `page`.
  func outbox(of relay: String = "beta", page: Int = 3) async throws -> [HeldMessage] {
    var all: [HeldMessage] = []
    while true {
      let next = try await storage.held(for: Sample.relay(relay), after: all.last?.sequence ?? 0, limit: page)
      if next.isEmpty { return all }
      #expect(next.count <= page)
      all += next
    }
  }
}

extension Backend {
  /// Runs `body` with as many stores over one migrated database as processes would open.
  func withStores(_ count: Int, _ body: ([Store]) async throws -> Void) async throws {
    let clock = ManualClock(Sample.noon)
    switch self {
    case .embedded:
      await Turns.embedded.take()
      defer { Turns.embedded.giveBack() }
      try await withTemporaryFolder { folder in
        try await Self.use(count, clock, body) {
          try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
        }
      }
    case .postgres:
      try await withPostgres { _, _, url in
        try await Self.use(count, clock, body) { try await PostgresStorage.connected(to: url) }
      }
    case .distributed:
      try await withDistributedDatabase { url in
        try await distribute(url)
        try await Self.use(count, clock, body) { try await PostgresStorage.connected(to: url) }
      }
    }
  }

  private static func use(
    _ count: Int, _ clock: ManualClock, _ body: ([Store]) async throws -> Void, open: () async throws -> any Storage
  ) async throws {
    var stores: [Store] = []
    for _ in 0..<count { stores.append(Store(storage: try await open(), clock: clock)) }
    do {
      try await stores.first?.storage.migrate { _ in }
      try await body(stores)
    } catch {
      for store in stores { await store.storage.close() }
      throw error
    }
    for store in stores { await store.storage.close() }
  }
}

@Suite(.tags(.stores)) struct OutboxContract {
  @Test(arguments: Backend.allCases)
  func `messages come back whole, in the order they were held, each peer's by itself`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let messages = try (0..<8).map {
        try Sample.outgoing(
          $0, from: $0, device: Int64($0 + 1), to: 100 + $0 % 3, at: $0 < 7 ? "beta" : "gamma",
          coverage: $0.isMultiple(of: 2) ? .activeDevices : .masterDevice)
      }
      for message in messages {
        #expect(try await store.hold(message))
        store.clock.advance(.milliseconds(5))
      }
      let held = try await store.outbox()
      #expect(held.map(\.message) == Array(messages.prefix(7)))
      #expect(held.map(\.sequence) == held.map(\.sequence).sorted())
      #expect(held.map(\.accepted.millis) == (0..<7).map { Sample.noon.millis + 5 * $0 })
      #expect(held.allSatisfy { $0.notBefore == $0.accepted && $0.attempts == 0 })
      #expect(try await store.outbox(of: "gamma").map(\.message) == [messages[7]])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a repeated message waits once; one that differs in anything waits beside it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let first = try Sample.outgoing(1)
      let others = try [
        Sample.outgoing(2), Sample.outgoing(1, from: 2), Sample.outgoing(1, device: 2), Sample.outgoing(1, to: 101),
        Sample.outgoing(1, bytes: 11), Sample.outgoing(1, coverage: .masterDevice), Sample.outgoing(1, at: "gamma"),
      ]
      for message in [first] + others + [first] { #expect(try await store.hold(message)) }
      let held = try await store.outbox()
      #expect(held.map(\.message) == [first] + others.prefix(6))
      // A full outbox knows what it holds.
      let full = OutboxBounds(messagesMax: 7, bytesMax: 1000, age: .seconds(60))
      #expect(try await store.hold(first, full))
      #expect(try await !store.hold(Sample.outgoing(3), full))
      #expect(try await store.outbox() == held)
      // A message that is gone is new again, and goes to the end.
      try await store.storage.removeHeld([held[0].sequence])
      #expect(try await store.hold(first, full))
      #expect(try await store.outbox().map(\.message) == others.prefix(6) + [first])
    }
  }

  @Test(arguments: Backend.allCases)
  func `the bounds of count and bytes hold for each peer, and what is removed makes room`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let bounds = OutboxBounds(messagesMax: 3, bytesMax: 100, age: .seconds(60))
      #expect(try await !store.hold(Sample.outgoing(0, bytes: 101), bounds))
      #expect(try await store.storage.outboxUsage().isEmpty)
      #expect(try await store.hold(Sample.outgoing(0, bytes: 60), bounds))
      #expect(try await !store.hold(Sample.outgoing(1, bytes: 41), bounds))
      #expect(try await store.hold(Sample.outgoing(1, bytes: 40), bounds))
      #expect(try await !store.hold(Sample.outgoing(2, bytes: 2), bounds))
      #expect(try await store.hold(Sample.outgoing(2, at: "gamma", bytes: 100), bounds))
      let first = try #require(try await store.outbox().first?.sequence)
      // A message that is not there any more frees nothing.
      for _ in 0..<2 { try await store.storage.removeHeld([first, .max]) }
      for id in [3, 4] { #expect(try await store.hold(Sample.outgoing(id, bytes: 2), bounds)) }
      #expect(try await !store.hold(Sample.outgoing(5, bytes: 2), bounds))
      let usage = try await store.storage.outboxUsage()
      #expect(usage.map(\.relay.text) == ["beta", "gamma"])
      #expect(usage.map(\.messages) == [3, 1])
      #expect(usage.map(\.bytes) == [44, 100])
      try await store.storage.removeHeld(store.outbox().map(\.sequence) + store.outbox(of: "gamma").map(\.sequence))
      #expect(try await store.storage.outboxUsage().isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a message that is put off is counted, and due again when its time comes or is called`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      for id in 0..<3 {
        #expect(try await store.hold(Sample.outgoing(id)))
        store.clock.advance(.seconds(1))
      }
      let beta = try Sample.relay("beta")
      let sequences = try await store.outbox().map(\.sequence)
      let later = store.now.adding(.seconds(60))
      try await store.storage.putOff(Array(sequences.prefix(2)), until: later)
      try await store.storage.putOff([sequences[0]], until: later.adding(.seconds(60)))
      try await store.storage.putOff([], until: later)
      let held = try await store.outbox()
      #expect(held.map(\.attempts) == [2, 1, 0])
      #expect(held.map(\.notBefore) == [later.adding(.seconds(60)), later, Sample.noon.adding(.seconds(2))])
      var usage = try #require(try await store.storage.outboxUsage().first)
      #expect(usage.oldest == Sample.noon && usage.nextAttempt == Sample.noon.adding(.seconds(2)))
      try await store.storage.removeHeld([sequences[2]])
      usage = try #require(try await store.storage.outboxUsage().first)
      #expect(usage.oldest == Sample.noon && usage.nextAttempt == later)

      // Messages for another account stay as they are.
      try await store.storage.makeDue(for: beta, among: [Sample.number(4)], now: store.now)
      #expect(try await store.outbox().map(\.notBefore) == [later.adding(.seconds(60)), later])
      let destination = try #require(held.first).message.submission.destination
      try await store.storage.makeDue(for: Sample.relay("gamma"), among: [destination], now: store.now)
      #expect(try await store.outbox().map(\.notBefore) == [later.adding(.seconds(60)), later])
      try await store.storage.makeDue(for: beta, among: [destination], now: store.now)
      #expect(try await store.outbox().map(\.notBefore) == [store.now, store.now])
      #expect(try await store.storage.outboxUsage().map(\.retried) == [Timestamp(millis: 0)], "the peer's pause stands")
      try await store.storage.putOff(Array(sequences.prefix(2)), until: later)

      #expect(try await store.storage.makeDue(for: beta, now: store.now) == 2)
      #expect(try await store.storage.outboxUsage().map(\.retried) == [store.now])
      #expect(try await store.storage.makeDue(for: Sample.relay("gamma"), now: store.now) == 0)
      let due = try await store.outbox()
      #expect(due.map(\.notBefore) == [store.now, store.now])
      #expect(due.map(\.attempts) == [3, 2])
    }
  }

  @Test(arguments: Backend.allCases)
  func `waiting messages are known by destination and peer`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      #expect(try await store.hold(Sample.outgoing(1, to: 100)))
      func isHeld(_ index: Int, _ relay: String = "beta") async throws -> Bool {
        let number = try Sample.number(index)
        return try await store.storage.destinationsHeld(among: [number], at: Sample.relay(relay)) == [number]
      }
      #expect(try await isHeld(100))
      #expect(try await !isHeld(101))
      #expect(try await !isHeld(1))
      #expect(try await !isHeld(100, "gamma"))
      #expect(try await store.hold(Sample.outgoing(2, to: 102)))
      let asked = try [100, 101, 102, 100].map { try Sample.number($0) }
      let held = try await store.storage.destinationsHeld(among: asked, at: Sample.relay("beta"))
      #expect(try held == [Sample.number(100), Sample.number(102)])
      #expect(try await store.storage.destinationsHeld(among: [], at: Sample.relay("beta")).isEmpty)
      try await store.storage.removeHeld(store.outbox().map(\.sequence))
      #expect(try await !isHeld(100))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a page of large messages ends early, and never without one`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      // A message has its most: some 87,000 bytes in base64, ninety of them 7.8 MB.
      for id in 0..<90 { #expect(try await store.hold(Sample.outgoing(id, bytes: WireLimits.messageBytesMax))) }
      let page = try await store.storage.held(for: Sample.relay("beta"), after: 0, limit: 256)
      #expect((45...60).contains(page.count))
      #expect(
        try await store.outbox(page: 256).map(\.message)
          == (0..<90).map {
            try Sample.outgoing($0, bytes: WireLimits.messageBytesMax)
          })
    }
  }

  @Test(arguments: Backend.allCases)
  func `nothing is held for a peer that is unknown or gone; one that comes back starts anew`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let beta = try Sample.relay("beta")
      let device = ConfirmedDevice(id: .master, registrationID: 1)
      func confirmed() async throws -> [ConfirmedDevice]? {
        try await store.storage.confirmedDevices(of: Sample.number(100), at: beta, since: store.now)
      }
      func confirm() async throws {
        try await store.storage.confirmDevices([device], of: Sample.number(100), at: beta, now: store.now)
      }
      for _ in 0..<2 {
        #expect(try await !store.hold(Sample.outgoing(1)))
        try await confirm()
        #expect(try await confirmed() == nil)
        #expect(try await store.storage.savePeer(Sample.peer("beta")))
        #expect(try await store.outbox().isEmpty)
        #expect(try await confirmed() == nil)
        let one = OutboxBounds(messagesMax: 1, bytesMax: 100, age: .seconds(60))
        #expect(try await store.hold(Sample.outgoing(1), one))
        try await confirm()
        #expect(try await confirmed() == [device])
        // Waiting messages keep their peer, as suspended: nothing is added to them then.
        #expect(try await store.storage.removePeer(beta) == .messagesWait)
        #expect(try await store.storage.peers().map(\.state) == [.suspended])
        #expect(try await store.outbox().count == 1)
        #expect(try await confirmed() == [device])
        #expect(try await !store.hold(Sample.outgoing(2)))
        #expect(try await store.hold(Sample.outgoing(1)))
        try await store.storage.removeHeld(store.outbox().map(\.sequence))
        #expect(try await store.storage.removePeer(beta) == .removed)
        #expect(try await store.storage.outboxUsage().isEmpty)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a message accepted while its peer is removed keeps the peer`(_ backend: Backend) async throws {
    try await backend.withStores(3) { stores in
      let beta = try Sample.relay("beta")
      for round in 0..<10 {
        #expect(try await stores[0].storage.savePeer(Sample.peer("beta")))
        let held = try await Self.holdWhileRemoving(beta, round, stores)
        let waiting = try await stores[0].outbox(page: 100)
        #expect(waiting.count == held)
        let isKept = try await !stores[0].storage.peers().isEmpty
        #expect(isKept || held == 0)
        try await stores[0].storage.removeHeld(waiting.map(\.sequence))
        _ = try await stores[0].storage.removePeer(beta)
      }
    }
  }

  /// - Returns: how many were accepted.
  private static func holdWhileRemoving(_ peer: RelayName, _ round: Int, _ stores: [Store]) async throws -> Int {
    try await withThrowingTaskGroup(of: Int.self) { group in
      for id in 0..<16 {
        group.addTask { try await stores[id % 2].hold(Sample.outgoing(round * 16 + id, from: id)) ? 1 : 0 }
      }
      group.addTask {
        _ = try await stores[2].storage.removePeer(peer)
        return 0
      }
      return try await group.reduce(0, +)
    }
  }

  @Test(arguments: Backend.allCases)
  func `while many processes hold, a reader that goes forward misses nothing`(_ backend: Backend) async throws {
    try await backend.withStores(4) { stores in
      #expect(try await stores[0].storage.savePeer(Sample.peer("beta")))
      try await withThrowingTaskGroup(of: Void.self) { group in
        Self.write(to: Array(stores.dropFirst()), within: Sample.roomy, in: &group)
        group.addTask {
          var (seen, last): ([PeerSubmission], Int64) = ([], 0)
          let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(60))
          while seen.count < Self.writers * Self.perWriter, ContinuousClock.now < deadline {
            let page = try await stores[0].storage.held(for: Sample.relay("beta"), after: last, limit: 1000)
            #expect(page.map(\.sequence) == page.map(\.sequence).sorted())
            last = page.last?.sequence ?? last
            seen += page.map(\.message)
          }
          try Self.expectAll(seen)
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `while many processes hold and some remove, bounds are kept and charges exact`(_ backend: Backend) async throws {
    try await backend.withStores(4) { stores in
      #expect(try await stores[0].storage.savePeer(Sample.peer("beta")))
      let bounds = OutboxBounds(messagesMax: 40, bytesMax: 350, age: .seconds(60))
      try await withThrowingTaskGroup(of: Void.self) { group in
        Self.write(to: Array(stores.dropFirst()), within: bounds, in: &group)
        group.addTask { try await Self.drain(stores[0], bounds: bounds) }
        try await group.waitForAll()
      }
      #expect(try await stores[1].storage.outboxUsage().isEmpty)
      // There is room for just as many as the bounds say.
      for id in 0..<35 { #expect(try await stores[2].hold(Sample.outgoing(id), bounds)) }
      #expect(try await !stores[2].hold(Sample.outgoing(35), bounds))
    }
  }

  static let writers = 16
  static let perWriter = 30

  /// Each writer holds its messages one after the other, and each again as long as there is no room.
  private static func write(
    to stores: [Store], within bounds: OutboxBounds, in group: inout ThrowingTaskGroup<Void, any Error>
  ) {
    for writer in 0..<writers {
      group.addTask {
        for index in 0..<perWriter {
          let message = try Sample.outgoing(1000 * writer + index, from: writer)
          while try await !isHeld(message, by: stores[writer % stores.count], within: bounds) {
            try await Task.sleep(for: .milliseconds(5))
          }
          // SQLite lets whoever asks take the lock next: writers that never pause starve one of them, for the five seconds
          // after which it gives up.
          try await Task.sleep(for: .milliseconds(30))
        }
      }
    }
  }

  /// A writer that did not get SQLite's lock within five seconds comes again, as clients do. Nothing was stored then.
  private static func isHeld(
    _ message: PeerSubmission, by store: Store, within bounds: OutboxBounds
  ) async throws -> Bool {
    do {
      return try await store.hold(message, bounds)
    } catch StoreError.unavailable(reason: "SQLite 5 (database is locked)") {
      return false
    }
  }

  private static func drain(_ store: Store, bounds: OutboxBounds) async throws {
    var seen: [PeerSubmission] = []
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(300))
    while seen.count < writers * perWriter, ContinuousClock.now < deadline {
      if let usage = try await store.storage.outboxUsage().first {
        #expect(usage.messages <= bounds.messagesMax && usage.bytes <= bounds.bytesMax)
      }
      let page = try await store.storage.held(for: Sample.relay("beta"), after: 0, limit: 7)
      seen += page.map(\.message)
      // As one that had lost the lease would beside the one that has it.
      async let other: Void = store.storage.putOff(page.map(\.sequence).reversed(), until: store.now)
      try await store.storage.removeHeld(page.map(\.sequence))
      try await other
    }
    try expectAll(seen)
  }

  /// Expects all messages of every writer, once, in their order.
  static func expectAll(_ seen: [PeerSubmission]) throws {
    for writer in 0..<writers {
      let own = try seen.filter { try $0.source.account == Sample.number(writer) }.map(\.submission.timestamp?.millis)
      let expected = (0..<perWriter).map { Sample.noon.millis + Int64(1000 * writer + $0) }
      #expect(own == expected, "writer \(writer)")
    }
  }
}
