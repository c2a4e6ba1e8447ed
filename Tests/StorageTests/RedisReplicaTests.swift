import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// A Redis that has become a replica answers, and takes no writes: its primary is looked for.
@Suite(.tags(.time)) struct RedisReplicaTests {
  @Test
  func `the name moves to the new primary: limits, signals and presence follow it within a few seconds`() async throws {
    let lines = LogRecorder.Lines()
    let logger = Logger(label: "redis") { _ in LogRecorder(lines: lines) }
    try await RedisServer.with { first in
      try await RedisServer.with { second in
        try second.follow(first)
        try await eventually("it has followed") { try second.isFollowing }
        let name = try await CuttingProxy(to: first.port, seed: 1)
        let coordination = try (0..<2).map { _ in
          try RedisCoordination(
            RedisEndpoint(address: .tcp(host: "127.0.0.1", port: name.port)), clock: ManualClock(Sample.noon).wall,
            logger: logger)
        }
        let heard = coordination.map { one in
          let heard = HeardPresence()
          one.hear(heard.handler)
          return heard
        }
        for one in coordination { try await eventually("Redis is reached") { await one.degradation() == nil } }
        let connection = try Sample.connection(1, id: 7)
        #expect(await coordination[0].enter(connection))

        try second.lead()
        try first.follow(second)
        // Connections to the former primary stay, and new ones still reach it.
        for one in coordination {
          try await eventually("a replica is none to keep") { await one.degradation()?.contains("replica") == true }
          #expect(one.isAtReplica)
          #expect(await one.wake([connection.device]) == WakeUpOutcome(unknown: [connection.device]))
        }
        let moved = ContinuousClock.now
        name.lead(to: second.port)
        for (one, heard) in zip(coordination, heard) {
          try await eventually("the new primary is found") { await one.degradation() == nil }
          try await eventually("it listens there") { heard.states.last == .connected }
          #expect(!one.isAtReplica)
        }
        // The longest pause is 2.4 s.
        #expect(ContinuousClock.now - moved < MachineSpeed.allow(.seconds(15)))
        #expect(await coordination[0].take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
        _ = await coordination[0].renew([connection])
        #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome())
        try await eventually("it is woken") { heard[0].woken == [connection.device] }
        #expect(try second.command("EXISTS relay:probe") == ":0")
        for one in coordination { await one.close() }
        try await name.close()
      }
    }
    #expect(lines.count(.warning, containing: "cannot be used as it is configured") > 0)
  }

  @Test func `a server that is demoted and promoted again is used again, by an idle process too`() async throws {
    try await RedisServer.with { server in
      try await RedisServer.with { other in
        try await withPresence(server, 2) { coordination, heard in
          let connection = try Sample.connection(1, id: 7)
          for round in 1...2 {
            try server.follow(other)
            // No call is made: the probe finds out.
            for (one, heard) in zip(coordination, heard) {
              try await eventually("it is found out") { one.isAtReplica }
              try await eventually("the subscription is given up too") { heard.states.last == .disconnected }
            }
            #expect(await !coordination[0].enter(connection))
            #expect(await coordination[0].take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed)
            try server.lead()
            for (one, heard) in zip(coordination, heard) {
              try await eventually("it is used again") { await one.degradation() == nil }
              try await eventually("it listens again") { heard.states.last == .connected }
            }
            #expect(await coordination[0].enter(connection))
            #expect(await coordination[1].wake([connection.device]) == WakeUpOutcome())
            try await eventually("it is woken") { heard[0].woken.count == round }
          }
        }
      }
    }
  }

  @Test func `a replica that has lost its primary is none to keep either`() async throws {
    try await RedisServer.with { server in
      try await RedisServer.with { other in
        try await withRedis(server) { coordination in
          try server.command("CONFIG SET replica-serve-stale-data no")
          other.stop()
          try server.follow(other)
          try await eventually("it is found out") { coordination[0].isAtReplica }
          try server.lead()
          try await eventually("it is used again") { await coordination[0].degradation() == nil }
        }
      }
    }
  }

  @Test func `the error of a script's call is known, whichever version wraps it`() {
    // Redis 7, 6 and 5.
    let texts = [
      "READONLY You can't write against a read only replica. script: 1f, on @user_script:5.",
      "ERR Error running script (call to f_1f): @user_script:5: @user_script: 5: -READONLY You can't write against a "
        + "read only replica.",
      "ERR Error running script (call to f_1f): @user_script:5: @user_script: 5: -READONLY You can't write against a "
        + "read only slave.",
    ]
    for text in texts { #expect(RedisReply.errorCode(of: text) == "READONLY") }
    for code in ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF"] {
      #expect(RedisReply.errorCode(of: "\(code) x") == code)
      #expect(RedisReply.errorCode(of: "ERR Error running script (call to f_1f): @user_script:1: -\(code) x") == code)
      #expect(RedisLinkFault(refusingAll: code) != nil)
    }
    for (text, code) in [
      ("ERR unknown command 'a', with args beginning with: '-READONLY '", "ERR"), ("NOSCRIPT No matching", "NOSCRIPT"),
      ("ERR Error running script (call to f_1f): @user_script:1: -OOM x", "ERR"), ("", ""), ("NOPERM", "NOPERM"),
    ] {
      #expect(RedisReply.errorCode(of: text) == code)
      #expect(RedisLinkFault(refusingAll: code) == nil)
    }
  }
}
