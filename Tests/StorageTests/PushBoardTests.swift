import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Redis's memory of the push gateway's pushes.
@Suite(.tags(.stores)) struct PushBoardTests {
  private static func mark(_ number: UInt8) -> PushMark { PushMark([number, 0, 0x0A, 0xFF, 0x20]) }

  @Test func `a process by itself has none`() {
    #expect(LocalCoordination(clock: ManualClock(Sample.noon).wall).pushBoard == nil)
  }

  @Test func `a push is one process's, and every process knows its outcome`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 2) { coordination in
        let boards = try coordination.map { try #require($0.pushBoard) }
        let marks = (1...4).map(Self.mark)
        #expect(await boards[0].claim(Array(marks[..<3]), by: 1) == [.ours, .ours, .ours])
        #expect(await boards[1].claim(marks, by: 2) == [.underWay, .underWay, .underWay, .ours])
        // Its own are its own, however often it asks.
        #expect(await boards[0].claim([marks[0]], by: 1) == [.ours])
        await boards[0].settle([(marks[0], .served), (marks[1], .rejected), (marks[2], nil)], by: 1)
        #expect(await boards[1].claim(marks, by: 2) == [.settled(.served), .settled(.rejected), .ours, .ours])
        // A claimant cannot give back another's push.
        await boards[0].settle([(marks[2], nil)], by: 1)
        #expect(await boards[0].claim([marks[2]], by: 1) == [.underWay])
      }
    }
  }

  @Test func `a claim of a process that died ends`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 2) { coordination in
        let boards = try coordination.map { try #require($0.pushBoard) }
        #expect(await boards[0].claim([Self.mark(1)], by: 1) == [.ours])
        // As if it had been made a minute ago.
        let field = "\\x01\\x00\\x0a\\xff\\x20"
        #expect(try server.command("HSET relay:{pushes}:0 \"\(field)\" \"w 1 1000\"") == ":0")
        #expect(await boards[1].claim([Self.mark(1)], by: 2) == [.ours])
        #expect(await boards[0].claim([Self.mark(1)], by: 1) == [.underWay])
      }
    }
  }

  @Test func `older pushes are forgotten after a day, and Redis holds no more than two hashes`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 1) { coordination in
        let board = try #require(coordination[0].pushBoard)
        await board.settle([(Self.mark(1), .served)], by: 1)
        let left = try #require(Int(try server.command("PTTL relay:{pushes}:0").dropFirst()))
        // Two days, less what this machine took.
        #expect((172_000_000...172_800_000).contains(left))
        for (number, known) in [(UInt8(2), true), (3, false)] {
          // The hash in use is a day old.
          #expect(try server.command("HSET relay:{pushes}:\(number - 2) \"\" 1000") == ":0")
          await board.settle([(Self.mark(number), .served)], by: 1)
          let claims = await board.claim([Self.mark(1)], by: 1)
          #expect((claims == [.settled(.served)]) == known, "\(number)")
          if known { await board.settle([(Self.mark(100), .rejected)], by: 1) }
        }
        #expect(await board.claim([Self.mark(3)], by: 1) == [.settled(.served)])
        // What the former one held is gone.
        #expect(try server.command("HEXISTS relay:{pushes}:0 \"\\x02\\x00\\x0a\\xff\\x20\"") == ":0")
      }
    }
  }

  @Test func `without Redis there is no answer`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server, 1) { coordination in
        let board = try #require(coordination[0].pushBoard)
        server.stop()
        #expect(await board.claim([Self.mark(1)], by: 1) == nil)
        await board.settle([(Self.mark(1), .served)], by: 1)
      }
    }
  }
}
