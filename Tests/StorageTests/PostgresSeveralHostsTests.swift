import Glibc
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Several hosts in one URL: the server that takes writes is found soon, and all connections use it.
@Suite(.tags(.time), .serialized) struct PostgresSeveralHostsTests {
  @Test func `a host that swallows packets holds a connection up for less than two seconds`() async throws {
    let (listener, port) = try Self.hole()
    defer { close(listener) }
    let server = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try server.createDatabase() }
    let reactor = try Reactor(name: "test")
    let connection = PostgresConnection(
      target: try PostgresTarget(url: database.replacing("//relay@", with: "//relay@127.0.0.1:\(port),")),
      settings: .init(purpose: "test"), reactor: reactor, logger: .quiet)
    let begun = ContinuousClock.now
    try await connection.untilConnected()
    #expect(ContinuousClock.now - begun < MachineSpeed.allow(.milliseconds(3000)))
    await connection.close()
    await reactor.stop()
  }

  /// Its kernel answers, so that only the server's own time-out would end the attempt.
  @Test func `a host that accepts and then is silent holds a store up for less than two seconds`() async throws {
    let (listener, port) = try Loopback.listen()
    defer { close(listener) }
    let server = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try server.createDatabase() }
    let begun = ContinuousClock.now
    let storage = try await PostgresStorage.connected(
      to: database.replacing("//relay@", with: "//relay@127.0.0.1:\(port),"))
    #expect(ContinuousClock.now - begun < MachineSpeed.allow(.seconds(2)))
    await storage.close()
  }

  @Test func `where no host takes writes the fault names each of them`() async throws {
    let pair = try await Loopback.blocking { try PostgresPair(isSynchronous: false) }
    try await Loopback.blocking { try pair.primary.stop() }
    let storage = try PostgresStorage(url: pair.url, logger: .quiet)
    try await eventually("the fault is known") { storage.connectFault != nil }
    let fault = try #require(storage.connectFault)
    #expect(fault.contains("port \(pair.primary.port) failed"), "\(fault)")
    #expect(fault.contains("port \(pair.standby.port) failed: session is read-only"), "\(fault)")
    await storage.close()
  }

  /// The server keeps its sessions: only a refused write tells.
  @Test func `when one write is refused as read-only, all connections leave the server and find the next`() async throws
  {
    let pair = try await Loopback.blocking { try PostgresPair(isSynchronous: false) }
    let storage = try await PostgresStorage.connected(to: pair.url)
    try await storage.migrate { _ in }
    let (former, next) = (pair.primary, pair.standby)
    #expect(try await Self.ports(of: storage) == [former.port])
    try await Loopback.blocking {
      try pair.untilFollowed()
      try former.sql("ALTER SYSTEM SET default_transaction_read_only = on", in: "postgres")
      try former.sql("SELECT pg_reload_conf()", in: "postgres")
      try next.promote()
    }
    let promoted = ContinuousClock.now
    // A server takes its new settings up a moment later.
    try await eventually("a write reaches the next server", within: .seconds(5)) {
      guard (try? await storage.tryWriting()) != nil else { return false }
      return try await Self.ports(of: storage) == [next.port]
    }
    #expect(ContinuousClock.now - promoted < MachineSpeed.allow(.seconds(5)))
    try await eventually("no session is left at the former primary") {
      try await Loopback.blocking { try former.relaySessions() } == 0
    }
    await storage.close()
  }

  /// It takes writes, which would be lost: the promotion has raised the timeline elsewhere.
  @Test func `a former primary that is started as it was is not used again`() async throws {
    let pair = try await Loopback.blocking { try PostgresPair(isSynchronous: false) }
    let storage = try await PostgresStorage.connected(to: pair.url)
    try await storage.migrate { _ in }
    try await Loopback.blocking {
      try pair.untilFollowed()
      try pair.failOver(.killed)
    }
    let (primary, former) = (pair.primary, pair.standby)
    try await eventually("the new primary is used") { try await Self.ports(of: storage) == [primary.port] }
    try await Loopback.blocking { try former.start() }
    for _ in 0..<5 {
      _ = try await Loopback.blocking {
        try primary.sql(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'relay'", in: "postgres")
      }
      for connection in storage.connections { try await connection.untilConnected() }
      try await eventually("all are at the new primary") { try await Self.ports(of: storage) == [primary.port] }
    }
    // Nor where there is no other.
    try await Loopback.blocking { try primary.stop() }
    try await eventually("the fault is told") { storage.connectFault?.contains("is a former primary") == true }
    await #expect(throws: StoreError.self) { try await storage.tryWriting() }
    await storage.close()
  }

  /// A device may hold a lost message still: the next one must not look like it.
  @Test func `a standby that lacks the last messages gives none of their numbers again`() async throws {
    let pair = try await Loopback.blocking { try PostgresPair(isSynchronous: false) }
    let storage = try await PostgresStorage.connected(to: pair.url)
    try await storage.migrate { _ in }
    let mailbox = try Sample.address(1)
    try await Loopback.blocking {
      try pair.untilFollowed()
      try pair.standby.stop()
    }
    // More than the numbers that a server writes to its log in advance.
    for id in 1...100 { try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: id)]) }
    let lost = try await storage.pending(in: mailbox, after: 0, limit: 200)
    try #require(lost.count == 100)
    let last = try #require(lost.last?.sequence)
    #expect(last < 1 << 32, "the server that made the store numbers from the start")
    let place = try await storage.directoryPlace()
    try await Loopback.blocking {
      try pair.primary.kill9()
      try pair.standby.start()
      try pair.standby.promote()
    }
    for connection in storage.connections { try await connection.untilConnected() }
    try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: 101)])
    let kept = try await storage.pending(in: mailbox, after: 0, limit: 200)
    #expect(kept.count == 1 && kept[0].sequence > last)
    // Registrations may be lost likewise: whoever follows the directory reads it anew.
    #expect(try await storage.directoryPlace().generation > place.generation)
    await storage.close()
  }

  @Test func `a store's connections use one server, even if two take writes`() async throws {
    let servers = try await Loopback.blocking {
      let first = try PostgresServer()
      return (first, try PostgresServer(), try first.createDatabase())
    }
    let (first, second, database) = servers
    // Under the same name.
    _ = try await Loopback.blocking { try second.createDatabase() }
    let both = database.replacing(":\(first.port)/", with: ":\(first.port),127.0.0.1:\(second.port)/")
    let storage = try await PostgresStorage.connected(to: both)
    let used = try #require(try await Self.ports(of: storage).first)
    #expect(try await Self.ports(of: storage) == [used])
    // Some connections are lost, come back anywhere, and fetch the others.
    let server = used == first.port ? first : second
    _ = try await Loopback.blocking {
      try server.sql(
        """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'relay' ORDER BY pid LIMIT 2
        """, in: "postgres")
    }
    for connection in storage.connections { try await connection.untilConnected() }
    try await eventually("all use one server") { try await Self.ports(of: storage).count == 1 }
    await storage.close()
  }

  /// The ports of the servers that a store's connections use; a connection that is under way has none.
  private static func ports(of storage: PostgresStorage) async throws -> Set<Int> {
    var ports: Set<Int> = []
    for connection in storage.connections {
      guard let found = try? await connection.read("server_port", "SELECT inet_server_port()") else { return [] }
      var row = found.cursor(row: 0)
      ports.insert(Int(try row.integer()))
    }
    return ports
  }

  /// A listener whose queue is full: the kernel drops the packets of whoever connects.
  private static func hole() throws -> (descriptor: Int32, port: Int) {
    let (descriptor, port) = try Loopback.listen()
    guard listen(descriptor, 0) == 0 else { throw TestFailure("listen: errno \(errno)") }
    // It stays in the queue until the listener is closed.
    close(try Loopback.connect(to: port, patience: 1))
    return (descriptor, port)
  }
}
