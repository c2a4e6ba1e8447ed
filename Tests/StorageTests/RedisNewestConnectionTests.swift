import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// The newest of several connections of a device stays, in whatever order processes speak of them.
@Suite(.tags(.stores)) struct RedisNewestConnectionTests {
  /// A process's word about a connection.
  private enum Word: CaseIterable, Sendable { case enter, renew }

  @Test
  func `in every order of entering and renewing, with Redis emptied before, the newest connection stays`() async throws
  {
    try await RedisServer.with { server in
      try await withPresence(server, 3) { coordination, heard in
        var index = 0
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
          for words in Self.threeWords {
            index += 1
            // Process 0 holds the oldest, process 2 the newest; the ids say nothing of it.
            let connections = try (0..<3).map {
              try Sample.connection(index, id: .random(in: .min ... .max), age: .seconds(30 - 10 * $0))
            }
            for (process, word) in zip(order, words) {
              await Self.say(word, connections[process], coordination[process])
            }
            // A process whose connection was not noted at first speaks again in its turn.
            for process in order { await Self.say(.renew, connections[process], coordination[process]) }
            let device = connections[0].device
            for old in 0..<2 {
              try await eventually("the older one of process \(old) is told") {
                heard[old].words.contains(.displaced(device, connection: connections[old].id))
              }
            }
            #expect(await coordination[0].wake([device]) == WakeUpOutcome())
            try await eventually("the newest is woken") { heard[2].words.last == .wakeUp([device]) }
            #expect(!heard[2].words.contains(.displaced(device, connection: connections[2].id)))
          }
        }
      }
    }
  }

  private static let threeWords: [[Word]] = Word.allCases.flatMap { first in
    Word.allCases.flatMap { second in Word.allCases.map { [first, second, $0] } }
  }

  private static func say(_ word: Word, _ connection: LiveConnection, _ coordination: RedisCoordination) async {
    switch word {
    case .enter: #expect(await coordination.enter(connection))
    case .renew: _ = await coordination.renew([connection])
    }
  }

  @Test
  func `of connections opened while Redis was away, the newest of each device stays when it is back`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        server.stop()
        for heard in heard { try await eventually("it is away") { heard.states.last == .disconnected } }
        // At process 0 the older of the even ones, and the newer of the odd ones.
        let held = try (0..<2).map { process in
          try (1...40).map { index in
            try Sample.connection(
              index, id: UInt64(1 + process), age: .seconds((index + process).isMultiple(of: 2) ? 20 : 10))
          }
        }
        for (one, connections) in zip(coordination, held) { #expect(await !one.enter(connections[0])) }
        try await server.start()
        for (one, heard) in zip(coordination, heard) {
          try await eventually("it is back") { heard.states.last == .connected }
          try await eventually("commands are served") { await one.degradation() == nil }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (one, connections) in zip(coordination, held) {
            for connection in connections { group.addTask { #expect(await one.enter(connection)) } }
          }
          try await group.waitForAll()
        }
        for process in 0..<2 { #expect(await coordination[process].renew(held[process]).regained.isEmpty) }
        for process in 0..<2 {
          let older = held[process].enumerated().filter { ($0.offset + 1 + process).isMultiple(of: 2) }.map(\.element)
          let newer = Set(held[process]).subtracting(older)
          for connection in older {
            try await eventually("the older one is told") {
              heard[process].words.contains(.displaced(connection.device, connection: connection.id))
            }
          }
          #expect(
            newer.allSatisfy { !heard[process].words.contains(.displaced($0.device, connection: $0.id)) })
        }
      }
    }
  }

  @Test func `of two connections opened at one instant one stays, the same one for both processes`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        for index in 1...50 {
          let connections = try (0..<2).map { try Sample.connection(index, id: UInt64(1 + $0)) }
          for first in [index % 2, 1 - index % 2] { #expect(await coordination[first].enter(connections[first])) }
          for process in [0, 1, 0] { _ = await coordination[process].renew([connections[process]]) }
          let told = {
            (0..<2).filter {
              heard[$0].words.contains(.displaced(connections[$0].device, connection: connections[$0].id))
            }
          }
          try await eventually("one is told") { !told().isEmpty }
          #expect(await coordination[0].wake([connections[0].device]) == WakeUpOutcome())
          try await eventually("the other one is woken") {
            heard.contains { $0.woken.contains(connections[0].device) }
          }
          #expect(told().count == 1)
          #expect(heard[told()[0]].woken.last != connections[0].device)
        }
      }
    }
  }

  @Test func `an entry of a former build gives way to a new connection, not to a renewal`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connection = try Sample.connection(1, id: 7)
        #expect(await coordination[0].enter(connection))
        guard let key = try Self.keys(server).first else { throw TestFailure("no entry") }
        try server.command("SET \(key) \"\(coordination[1].process) 9\"")
        #expect(await coordination[0].renew([connection]).regained.isEmpty)
        try await eventually("it is told") {
          heard[0].words == [.displaced(connection.device, connection: connection.id)]
        }
        let next = try Sample.connection(1, id: 8)
        #expect(await coordination[0].enter(next))
        try await eventually("the other process is told") {
          heard[1].words == [.displaced(connection.device, connection: 9)]
        }
        // A build of before finds its way by what stands there now.
        let entry = try server.command("EVAL \"return redis.call('GET', KEYS[1])\" 1 \(key)")
        #expect(entry.hasPrefix("$"))
        let pattern = "return string.match(redis.call('GET', KEYS[1]), '^(%w+) (%d+)$') == ARGV[1] and 1 or 0"
        #expect(try server.command("EVAL \"\(pattern)\" 1 \(key) \(coordination[0].process)") == ":1")
      }
    }
  }

  @Test
  func `an entry in the future is replaced after Redis's clock went back, and its process not told`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let (old, new) = try (Sample.connection(1, id: 7, age: .seconds(60)), Sample.connection(1, id: 8))
        #expect(await coordination[0].enter(old))
        guard let key = try Self.keys(server).first else { throw TestFailure("no entry") }
        // As process 0 wrote it while the clock was a year ahead.
        let future = "\(coordination[0].process) 9000000000000000\(HoldScript.id(of: old))"
        try server.command("SET \(key) \"\(future)\"")
        #expect(await coordination[1].enter(new))
        #expect(await coordination[1].wake([new.device]) == WakeUpOutcome())
        try await eventually("the new one stands") { heard[1].words == [.wakeUp([new.device])] }
        #expect(heard[0].words.isEmpty)
        // The other way round: the one that stands is the newer one, and its process says so in its turn.
        try server.command("SET \(key) \"\(coordination[1].process) 9000000000000000\(HoldScript.id(of: new))\"")
        #expect(await coordination[0].enter(old))
        #expect(heard[1].words == [.wakeUp([new.device])])
        #expect(await coordination[1].renew([new]).regained == [new])
        try await eventually("the older one is told") {
          heard[0].words == [.displaced(old.device, connection: old.id)]
        }
      }
    }
  }

  /// The keys of connections, as they stand in an empty Redis.
  private static func keys(_ server: RedisServer) throws -> [String] {
    // As a status: of a text the answer's first line is its length.
    let text = try server.command(
      "EVAL \"return redis.status_reply(table.concat(redis.call('KEYS', 'relay:device:*'), ' '))\" 0")
    return text.dropFirst().split(separator: " ").map(String.init)
  }
}

/// A process's knowledge of a server's clock.
@Suite(.tags(.unit)) struct ServerClockTests {
  private let start = ContinuousClock.now

  private func clock(_ micros: Int64, at seconds: Double, roundTrip: Duration) -> ServerClock {
    let asked = start + .seconds(seconds)
    return ServerClock(micros: micros, asked: asked, answered: asked + roundTrip)
  }

  @Test func `the middle between question and answer is taken for the moment of the answer`() {
    let clock = clock(1_000_000, at: 0, roundTrip: .milliseconds(20))
    #expect(clock.micros(at: start + .milliseconds(10)) == 1_000_000)
    #expect(clock.micros(at: start + .seconds(5)) == 5_990_000)
    #expect(clock.micros(at: start - .seconds(1)) == -10_000)
  }

  @Test func `a slow answer does not spoil what a quick one taught, until clocks may have drifted apart`() {
    let quick = clock(1_000_000, at: 0, roundTrip: .milliseconds(2))
    let slow = clock(6_150_000, at: 5, roundTrip: .milliseconds(400))
    #expect(quick.corrected(by: slow) == quick)
    #expect(slow.corrected(by: quick) == quick)
    let late = clock(1_000_400_000, at: 1000, roundTrip: .milliseconds(400))
    #expect(quick.corrected(by: late) == late)
  }

  @Test func `a server whose clock was set is believed, however slow its answer`() {
    let quick = clock(1_000_000, at: 0, roundTrip: .milliseconds(2))
    for moved in [-3_600_000_000, -1_000_000, 1_000_000, 3_600_000_000] as [Int64] {
      let slow = clock(6_150_000 + moved, at: 5, roundTrip: .milliseconds(400))
      #expect(quick.corrected(by: slow) == slow)
    }
  }

  @Test func `nothing but a time is taken for one`() {
    func parse(_ parts: [RedisReply]) -> ServerClock? {
      ServerClock(.array(parts), asked: start, answered: start + .milliseconds(2))
    }
    func text(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }
    #expect(parse([text("1700000000"), text("999999")])?.micros(at: start + .milliseconds(1)) == 1_700_000_000_999_999)
    for parts in [
      [], [text("1")], [text("1"), text("1000000")], [text("-1"), text("0")], [text("1"), text("-1")],
      [text("9223372036854775807"), text("0")], [.integer(1), .integer(0)], [text("x"), text("0")],
    ] { #expect(parse(parts) == nil) }
    for reply in [nil, .null, .error(code: "NOPERM"), .status("OK")] as [RedisReply?] {
      #expect(ServerClock(reply, asked: start, answered: start) == nil)
    }
  }
}
