import Crypto
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Several processes over one Redis: who holds which device.
@Suite(.tags(.stores)) struct RedisPresenceTests {
  @Test func `each process is told at once of all its devices, itself too, and the rest is absent`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 3) { coordination, heard in
        var devices: [DeviceAddress] = []
        for index in 1...9 {
          let connection = try Sample.connection(index, id: UInt64(index))
          devices.append(connection.device)
          if index > 3 { #expect(await coordination[index % 3].enter(connection)) }
        }
        let outcome = await coordination[1].wake(devices)
        #expect(Set(outcome.absent) == Set(devices[..<3]) && outcome.unknown.isEmpty)
        for process in 0..<3 {
          try await eventually("process \(process) is told") { heard[process].words.count == 1 }
          #expect(
            heard[process].words == [
              .wakeUp(devices.indices.filter { $0 > 2 && ($0 + 1) % 3 == process }.map { devices[$0] })
            ])
        }
        for connection in try [Sample.connection(4, id: 4), Sample.connection(5, id: 5)] {
          await coordination[Int(connection.id) % 3].leave(connection)
        }
        let gone = await coordination[0].wake(devices).absent
        #expect(Set(gone) == Set(devices[..<5]))
      }
    }
  }

  @Test func `entries that a process left behind are forgotten at its word, and others' stay`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connections = try (1...1500).map { try Sample.connection($0, id: UInt64($0)) }
        let devices = connections.map(\.device)
        #expect(await coordination[0].renew(Array(connections[..<1200])).regained.count == 1200)
        #expect(await coordination[1].renew(Array(connections[1200...1400])).regained.count == 201)
        #expect(await coordination[0].forget([]))
        #expect(await coordination[0].forget(devices))
        let absent = await coordination[0].wake(devices).absent
        #expect(Set(absent) == Set(devices[..<1200] + devices[1401...]))
        try await eventually("the other is told") { heard[1].woken.count == 201 }

        server.stop()
        #expect(await !coordination[1].forget(devices))
      }
    }
  }

  @Test func `a process that falls silent counts as dead once, for one caller`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 3) { coordination, _ in
        for one in coordination { #expect(await one.rollCall(silence: .seconds(60)) == 0) }
        #expect(await coordination[0].rollCall(silence: .seconds(60)) == 0)
        var found = 0
        try await eventually("the two others are found") {
          // Not to be found itself, where the machine stood still.
          _ = await coordination[0].rollCall(silence: .seconds(60))
          found += await coordination[0].rollCall(silence: .seconds(1))
          return found >= 2
        }
        #expect(found == 2)
        #expect(await coordination[0].rollCall(silence: .seconds(60)) == 0)
        #expect(await coordination[1].rollCall(silence: .seconds(60)) == 0)

        server.stop()
        #expect(await coordination[0].rollCall(silence: .milliseconds(1)) == 0)
      }
    }
  }

  @Test func `thousands of devices are noted, renewed and woken in one call`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connections = try (1...2500).map { try Sample.connection($0, id: .max - UInt64($0)) }
        let here = connections.filter { !$0.id.isMultiple(of: 5) }
        #expect(await Set(coordination[0].renew(here).regained) == Set(here))
        #expect(await coordination[0].renew(here).regained.isEmpty)
        let absent = await coordination[1].wake(connections.map(\.device)).absent
        #expect(Set(absent) == Set(connections.map(\.device)).subtracting(here.map(\.device)))
        try await eventually("all are told") { heard[0].woken.count == here.count }
        #expect(heard[0].woken == here.map(\.device))
        #expect(heard[1].words.isEmpty)

        try server.flush()
        #expect(await Set(coordination[0].renew(connections).regained) == Set(connections))
        #expect(await coordination[0].renew(connections).regained.isEmpty)
        #expect(await coordination[0].wake(connections[..<1000].map(\.device)) == WakeUpOutcome())
      }
    }
  }

  @Test
  func `a newer connection takes the place of the former one, and the process that held that is told`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        // Neither the ids nor the processes have a say.
        for (index, ids) in ([(1, 2), (2, 1), (.max, .max - 1)] as [(UInt64, UInt64)]).enumerated() {
          for first in 0...1 {
            let (holding, former) = (1 - first, first)
            let place = index * 2 + first
            let (old, new) = try (
              Sample.connection(place, id: ids.0, age: .seconds(1)), Sample.connection(place, id: ids.1)
            )
            #expect(await coordination[former].enter(old))
            #expect(await coordination[holding].enter(new))
            try await eventually("the former is told") {
              heard[former].words.contains(.displaced(old.device, connection: old.id))
            }
            // Neither takes back what is another's.
            await coordination[former].leave(old)
            #expect(await coordination[former].renew([old]).regained.isEmpty)
            #expect(await coordination[holding].renew([new]).regained.isEmpty)
            #expect(await coordination[former].wake([old.device]) == WakeUpOutcome())
            try await eventually("the new one is woken") { heard[holding].woken.last == new.device }
            #expect(!heard[former].woken.contains(old.device))
            #expect(!heard[holding].words.contains(.displaced(new.device, connection: new.id)))
          }
        }
      }
    }
  }

  @Test func `of two connections of one process, too, the former one is told`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        // Opened in one instant: the process saw which came first.
        let old = try Sample.connection(1, id: 8)
        let new = LiveConnection(device: old.device, id: 7, opened: old.opened)
        #expect(await coordination[0].enter(old))
        #expect(await coordination[0].enter(new))
        // Noted once more: nothing has changed.
        #expect(await coordination[0].enter(new))
        await coordination[0].leave(old)
        #expect(await coordination[0].renew([new]).regained.isEmpty)
        #expect(await coordination[1].wake([new.device]) == WakeUpOutcome())
        try await eventually("it is told and woken") { heard[0].words.count == 2 }
        #expect(heard[0].words == [.displaced(old.device, connection: 8), .wakeUp([new.device])])
        #expect(heard[1].words.isEmpty)
      }
    }
  }

  @Test func `a renewal never takes a newer connection's place, and is told again each time`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let (old, new) = try (Sample.connection(1, id: 8, age: .seconds(1)), Sample.connection(1, id: 7))
        let other = try Sample.connection(2, id: 9)
        #expect(await coordination[1].enter(new))
        #expect(await coordination[0].enter(other))
        for round in 1...3 {
          #expect(await coordination[0].renew([old, other]).regained.isEmpty)
          try await eventually("it is told") { heard[0].words.count == round }
        }
        #expect(heard[0].words.allSatisfy { $0 == .displaced(old.device, connection: 8) })
        await coordination[0].leave(old)
        #expect(await coordination[0].wake([new.device, other.device]) == WakeUpOutcome())
        try await eventually("the one that was noted is woken") { heard[1].words == [.wakeUp([new.device])] }
      }
    }
  }

  @Test func `an entry holds no number, expires, and what is not renewed is forgotten`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, heard in
        let connection = try Sample.connection(1, id: 7)
        let address = try Sample.waiting(1)
        #expect(await coordination[0].enter(connection))
        await coordination[0].enter(address)
        let keys = [
          Self.entryKey(connection.device),
          "relay:address:\(Self.hashed(address.text))",
        ]
        #expect(try server.command("DBSIZE") == ":2")
        for key in keys {
          let life = try Int(server.command("PTTL \(key)").dropFirst())
          #expect((1...60_000).contains(try #require(life)))
        }
        // Renewing lengthens the life.
        try server.command("PEXPIRE \(keys[0]) 20000")
        #expect(await coordination[0].renew([connection]).regained.isEmpty)
        #expect(try #require(Int(server.command("PTTL \(keys[0])").dropFirst())) > 20_000)
        for key in keys {
          try server.command("PEXPIRE \(key) 1")
          try await eventually("it expires") { try server.command("EXISTS \(key)") == ":0" }
        }
        #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome(absent: [connection.device]))
        #expect(await !coordination[1].handOver([1], to: address))
        #expect(await coordination[0].renew([connection]).regained == [connection])
        #expect(heard[0].words.isEmpty)
      }
    }
  }

  @Test func `devices and addresses of a process that is gone are nowhere, before they expire`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server, 2) { coordination, _ in
        let connection = try Sample.connection(1, id: 7)
        let address = try Sample.waiting(1)
        #expect(await coordination[0].enter(connection))
        await coordination[0].enter(address)
        #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome())
        await coordination[0].close()
        try await eventually("nobody listens") {
          await coordination[1].wake([connection.device]) == WakeUpOutcome(absent: [connection.device])
        }
        #expect(await !coordination[1].handOver([1], to: address))
      }
    }
  }

  @Test func `a malformed entry in Redis is replaced, and wakes nobody`() async throws {
    try await RedisServer.with { server in
      try await withPresence(server) { coordination, heard in
        let connections = try (1...6).map { try Sample.connection($0, id: UInt64($0)) }
        let keys = connections.map { Self.entryKey($0.device) }
        let values = ["\"\"", "x", "\"a b\"", "\"a b c\"", "\"a 1 2\""]
        for (key, value) in zip(keys, values) { try server.command("SET \(key) \(value)") }
        try server.command("RPUSH \(keys[5]) a")
        #expect(await Set(absent(coordination[0], connections)) == Set(connections.map(\.device)))
        #expect(await Set(coordination[0].renew(connections).regained) == Set(connections))
        #expect(await absent(coordination[0], connections).isEmpty)
        try await eventually("all are told") { heard[0].woken == connections.map(\.device) }
      }
    }
  }

  @Test func `operators with prefixes of their own know nothing of each other's devices`() async throws {
    try await RedisServer.with { server in
      let endpoint = RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port))
      let operators = try ["alpha:", "beta:"].map {
        try RedisCoordination(endpoint, prefix: $0, clock: ManualClock(Sample.noon).wall, logger: .quiet)
      }
      for one in operators { try await eventually("Redis is reached") { await one.degradation() == nil } }
      let connection = try Sample.connection(1, id: 1)
      #expect(await operators[0].enter(connection))
      #expect(await operators[1].wake([connection.device]) == WakeUpOutcome(absent: [connection.device]))
      #expect(await operators[0].wake([connection.device]) == WakeUpOutcome())
      for one in operators { await one.close() }
    }
  }

  private func absent(_ presence: some Presence, _ connections: [LiveConnection]) async -> [DeviceAddress] {
    await presence.wake(connections.map(\.device)).absent
  }

  private static func entryKey(_ device: DeviceAddress) -> String {
    "relay:device:\(RedisSlot.tag(of: device.account.e164.utf8))\(hashed("\(device.account.e164).1"))"
  }

  private static func hashed(_ text: String) -> String {
    Base64.encodeURLSafe(Array(SHA256.hash(data: Data(text.utf8)).prefix(16)))
  }
}

/// Runs `body` with `count` processes' worth of coordination, and what each of them hears.
func withPresence(
  _ server: RedisServer, _ count: Int = 1, clock: ManualClock = ManualClock(Sample.noon),
  _ body: ([RedisCoordination], [HeardPresence]) async throws -> Void
) async throws {
  try await withRedis(server, count, clock: clock) { coordination in
    let heard = coordination.map { one in
      let heard = HeardPresence()
      one.hear(heard.handler)
      return heard
    }
    for heard in heard { try await eventually("it listens") { heard.events == [.connected] } }
    try await body(coordination, heard)
  }
}
