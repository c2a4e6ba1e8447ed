// Reading the whole directory at the side of everything else.

import Glibc
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresDirectoryCopyTests {
  private static func fill(_ count: Int, on server: PostgresServer, in url: String) throws {
    try server.sql(
      """
      ALTER TABLE accounts DISABLE TRIGGER USER;
      INSERT INTO accounts (account, token, active, supports_sms, voice)
      SELECT n, substring(sha256(n::text::bytea), 1, 10), n % 10 > 0, true, false FROM generate_series(1, \(count)) AS n;
      ALTER TABLE accounts ENABLE TRIGGER USER;
      """, in: url)
  }

  private static func sessions(on server: PostgresServer, in url: String) throws -> String {
    try server.sql(
      "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%'", in: url)
  }

  @Test func `many are read in portions`() async throws {
    try await withPostgres { storage, server, url in
      try Self.fill(100_000, on: server, in: url)
      let portions = Collected<Int>()
      _ = try await storage.readDirectory { portions.add($0.count) }
      #expect(portions.values == Array(repeating: 10_000, count: 9))
      try await eventually("nothing of it is left") { try Self.sessions(on: server, in: url) == "0" }
    }
  }

  @Test func `an empty directory is read too`() async throws {
    try await withPostgres { storage, _, _ in
      let place = try await storage.readDirectory { _ in Issue.record("there is nothing") }
      #expect(try await storage.directoryChanges(after: place, limit: 1)?.changes.isEmpty == true)
    }
  }

  @Test func `a reader that gives up ends the copy`() async throws {
    try await withPostgres { storage, server, url in
      try Self.fill(100_000, on: server, in: url)
      let begun = Counter()
      let hasGivenUp = Atomic<Bool>(false)
      let reading = Task { () throws(StoreError) in
        try await storage.readDirectory { _ in
          begun.add()
          // The server waits too, since nobody reads on.
          while !hasGivenUp.load(ordering: .relaxed) { usleep(1000) }
        }
      }
      try await eventually("it has begun") { begun.value > 0 }
      reading.cancel()
      hasGivenUp.store(true, ordering: .relaxed)
      await #expect(throws: StoreError.self) { try await reading.value }
      try await eventually("nothing of it is left") { try Self.sessions(on: server, in: url) == "0" }
    }
  }

  @Test func `a store that closes ends the copy`() async throws {
    try await withPostgres { _, server, url in
      try Self.fill(100_000, on: server, in: url)
      let storage = try await PostgresStorage.connected(to: url)
      let begun = Counter()
      let isOver = Atomic<Bool>(false)
      async let reading: Result<DirectoryPlace, StoreError> = Self.read(storage) {
        begun.add()
        while !isOver.load(ordering: .relaxed) { usleep(1000) }
      }
      try await eventually("it has begun") { begun.value > 0 }
      await storage.close()
      isOver.store(true, ordering: .relaxed)
      guard case .failure(.unavailable) = await reading else {
        Issue.record("the copy went on")
        return
      }
      guard case .failure(.unavailable) = await Self.read(storage, {}) else {
        Issue.record("a closed store was read")
        return
      }
    }
  }

  private static func read(_ storage: PostgresStorage, _ take: @escaping @Sendable () -> Void) async -> Result<
    DirectoryPlace, StoreError
  > {
    do { return .success(try await storage.readDirectory { _ in take() }) } catch { return .failure(error) }
  }

  @Test func `a server that is away is reported`() async throws {
    let port = try Loopback.freePorts(1)[0]
    let storage = try PostgresStorage(url: "postgres://relay@127.0.0.1:\(port)/none", logger: .quiet)
    guard case .failure(.unavailable) = await Self.read(storage, {}) else {
      Issue.record("nobody was read")
      return
    }
    await storage.close()
  }

  @Test func `a server that dies meanwhile is reported`() async throws {
    try await withPostgres { storage, server, url in
      try Self.fill(100_000, on: server, in: url)
      let begun = Counter()
      let isOver = Atomic<Bool>(false)
      async let reading = {
        let result = await Self.read(storage) { begun.add() }
        isOver.store(true, ordering: .relaxed)
        return result
      }()
      // Again and again: a session that is ended while it copies, unless it is done before.
      try await eventually("the copy is ended or done") {
        try server.sql(
          """
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND query LIKE 'COPY%'
          """, in: url)
        return isOver.load(ordering: .relaxed)
      }
      switch await reading {
      case .success: #expect(begun.value == 9)
      // All nine too: it may be ended between the last of them and the server's word that they were all.
      case .failure(.unavailable): #expect(begun.value <= 9)
      case .failure(let error): Issue.record(error)
      }
    }
  }

  @Test func `a malformed copy is refused`() throws {
    let header: [UInt8] = [0x50, 0x47, 0x43, 0x4F, 0x50, 0x59, 0x0A, 0xFF, 0x0D, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    let token: [UInt8] = [0, 0, 0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    let flags: [UInt8] = [0, 0, 0, 1, 1, 0, 0, 0, 1, 0]
    let ours = [0, 4] + token + [255, 255, 255, 255] + flags
    let peers = [0, 4] + token + [0, 0, 0, 4] + Array("beta".utf8) + flags
    let end: [UInt8] = [255, 255]

    var parser = DirectoryCopyParser(.plain)
    for piece in [header + ours, peers, peers + ours, end] { try Self.read(piece, &parser) }
    #expect(parser.isEnded)
    let count = parser.count
    let entries = try parser.takeEntries()
    #expect(entries.count == count && parser.count == 0)
    #expect(entries.map { $0.relay?.text } == [nil, "beta", "beta", nil])
    #expect(entries.allSatisfy { $0.supportsSMS && !$0.voice && $0.token.bytes == Array(1...10) })

    let whole = header + peers
    for length in 1..<whole.count where length != header.count {
      var parser = DirectoryCopyParser(.plain)
      #expect(throws: StoreError.self) { try Self.read(Array(whole.prefix(length)), &parser) }
    }
    let name: [UInt8] = [0, 4] + token + [0, 0, 0, 4] + Array("BETA".utf8) + flags
    for damaged in [name, [0, 5] + token, [0, 4, 0, 0, 0, 9] + token, [0, 4, 128, 0, 0, 0], [255, 254]] {
      var parser = DirectoryCopyParser(.plain)
      #expect(throws: StoreError.self) { try Self.read(header + damaged, &parser) }
    }
  }

  private static func read(
    _ piece: [UInt8], _ parser: inout DirectoryCopyParser
  ) throws(StoreError) {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: piece.count, alignment: 1)
    defer { copy.deallocate() }
    copy.copyBytes(from: piece)
    try parser.read(UnsafeRawBufferPointer(copy))
  }
}
