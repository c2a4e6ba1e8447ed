import ChildProcesses
import TestSupport
import TestTags
import Testing

/// A server that dies takes no answered request with it, and one that comes back is used again.
@Suite(.tags(.time), .serialized) struct OutageTests {
  @Test func `kill -9 under 32 senders: what was answered with success is fetched exactly once, on shared stores`()
    async throws
  {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let storm = try await Storm(senders: 32, at: relays)
        try await storm.run(messages: 40) {
          await relays[0].kill9()
        }
        try await storm.check(at: relays[1])
      }
    }
  }

  @Test func `kill -9 under 32 senders: what was answered with success is fetched exactly once, on embedded stores`()
    async throws
  {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      // The same ports again, where the senders retry.
      let ports = try Loopback.freePorts(2)
      let own = ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]
      let relay = try await site.serve(own)
      let storm = try await Storm(senders: 32, at: [relay])
      let again = try await storm.run(messages: 40) {
        await relay.kill9()
        return try await site.serve(own)
      }
      try await storm.check(at: again)
      #expect(await again.terminate() == .code(0))
    }
  }

  @Test func `PostgreSQL away: 503 and not ready, and all is well when it is back`() async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      try await cluster.serve(2) { relays in
        let sender = try await relays[0].register()
        let recipient = try await relays[0].register()
        let path = "/v1/messages/\(recipient.number)"
        #expect(try await relays[1].send("PUT", path, json: bundle(message(), timestamp: 1), as: sender).status == 200)

        try await Loopback.blocking { try cluster.postgres.stop() }
        for relay in relays {
          for (method, path, json) in [
            ("PUT", path, bundle(message(), timestamp: 2)), ("GET", "/v1/messages", nil), ("GET", "/v1/keys", nil),
            ("GET", "/v1/accounts/dev/code/\(TestDevice.freshNumber())", nil),
          ] {
            let answer = try await relay.send(method, path, json: json, as: sender)
            #expect(answer.status == 503, "\(method) \(path): \(answer.status)")
            #expect(answer.headers["retry-after"] != nil)
          }
          try await eventually("readyz says why not") { await relay.readyz()?.status == 503 }
          #expect(await relay.readyz()?.body.contains("storage") == true)
        }

        try await Loopback.blocking { try cluster.postgres.start() }
        for relay in relays {
          try await eventually("the relay is ready again", within: .seconds(30)) { await relay.readyz()?.status == 200 }
          #expect(try await relay.send("PUT", path, json: bundle(message(), timestamp: 3), as: sender).status == 200)
        }
        let times = try await relays[0].mailbox(of: recipient).compactMap { $0["timestamp"] as? Int }
        #expect(times.contains(1) && times.contains(3) && Set(times).count == times.count)
      }
    }
  }

  enum End: Sendable, CaseIterable { case stopped, killed }

  @Test(arguments: End.allCases)
  func `PostgreSQL away under 32 senders: 503 with Retry-After, no accepted message is lost, and no restart is needed`(
    end: End
  ) async throws {
    try await Cluster.with(ownPostgres: true) { cluster in
      try await cluster.serve(2) { relays in
        let storm = try await Storm(senders: 32, at: relays)
        try await storm.run(messages: 40) {
          try await Loopback.blocking {
            if end == .stopped { try cluster.postgres.stop() } else { try cluster.postgres.kill9() }
          }
          for relay in relays {
            let answer = try await relay.send("GET", "/v1/accounts/dev/code/\(TestDevice.freshNumber())")
            #expect(answer.status == 503, "\(answer.text)")
            #expect(answer.headers["retry-after"].flatMap { Int($0) } ?? 0 >= 1)
            try await eventually("readyz says why not") { await relay.readyz()?.status == 503 }
          }
          try await Loopback.blocking { try cluster.postgres.start() }
        }
        for relay in relays {
          try await eventually("the relay is ready again", within: .seconds(30)) { await relay.readyz()?.status == 200 }
        }
        try await storm.check(at: relays[1])
        for relay in relays { #expect(!relay.log().contains("request failed"), "\(relay.log().suffix(2000))") }
      }
    }
  }

  @Test func `Redis away under 32 senders: messages go on, limits bite harder, and both are told and pass`()
    async throws
  {
    let size = 8
    let limits = Cluster.unlimited.merging([
      "RELAY_LIMITS_CONTACT_QUERIES_SIZE": "\(size)", "RELAY_LIMITS_CONTACT_QUERIES_PER_MINUTE": "0",
    ]) { $1 }
    try await Cluster.with(settings: limits) { cluster in
      try await cluster.serve(2) { relays in
        let callers = [try await relays[0].register(), try await relays[0].register()]
        let storm = try await Storm(senders: 32, at: relays)
        try await storm.run(messages: 40) {
          cluster.redis.stop()
          for relay in relays { try await relay.untilCoordination(isAvailable: false) }
          // A quarter of the bucket at each process, and no more.
          #expect(try await lookUps(until: size, as: callers[0], at: relays) == [size / 4, size / 4])
          try await cluster.redis.start()
          for relay in relays { try await relay.untilCoordination(isAvailable: true) }
          // One bucket for both again, whole since Redis began anew.
          #expect(try await lookUps(until: size + 1, as: callers[1], at: relays) == [size, 0])
        }
        try await storm.check(at: relays[0])
        for relay in relays {
          let log = relay.log()
          #expect(log.ranges(of: "Redis is away: limits").count == 1, "said once: \(log.suffix(2000))")
          #expect(log.ranges(of: "it serves the limits again").count == 1, "\(log.suffix(2000))")
        }
      }
    }
  }

  /// Looks contacts up at each of `relays` in turn until one is refused, at most `max` times.
  /// - Returns: how many each allowed.
  private func lookUps(until max: Int, as caller: TestDevice, at relays: [RelayProcess]) async throws -> [Int] {
    var allowed: [Int] = []
    for relay in relays {
      var count = 0
      while count < max {
        let status = try await relay.send("GET", "/v1/directory/AAAAAAAAAAAAAA", as: caller).status
        if status == 413 { break }
        #expect(status == 404)
        count += 1
      }
      allowed.append(count)
    }
    return allowed
  }

  @Test func `Redis away: requests go on, and what is shared is shared again when it is back`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let (one, two) = (relays[0], relays[1])
        let sender = try await one.register()
        let recipient = try await two.register()
        let path = "/v1/messages/\(recipient.number)"

        cluster.redis.stop()
        for (index, relay) in relays.enumerated() {
          let json = bundle(message(), timestamp: Int64(index + 1))
          let begun = ContinuousClock.now
          #expect(try await relay.send("PUT", path, json: json, as: sender).status == 200)
          #expect(try await relay.send("GET", "/v1/keys", as: recipient).status == 200)
          #expect(ContinuousClock.now - begun < MachineSpeed.allow(.seconds(20)), "nobody waits for what is not there")
          #expect(await relay.readyz()?.status == 200)
        }
        // No signals arrive: nothing may be taken from a cache.
        let former = try await one.register()
        #expect(try await two.send("GET", "/v1/keys", as: former).status == 200)
        let present = try await one.register(former.number)
        try await eventually("the old password is refused", within: .seconds(10)) {
          try await two.send("GET", "/v1/keys", as: former).status == 401
        }
        #expect(try await two.send("GET", "/v1/keys", as: present).status == 200)

        try await cluster.redis.start()
        // Signals arrive again.
        try await eventually("a re-registration is seen at once again", within: .seconds(30)) {
          let former = try await one.register()
          guard try await two.send("GET", "/v1/keys", as: former).status == 200 else { return false }
          _ = try await one.register(former.number)
          return try await two.send("GET", "/v1/keys", as: former).status == 401
        }
      }
    }
  }

  @Test func `a schema that is too old is refused, naming the command`() async throws {
    try await Cluster.with { cluster in
      let empty = try await Loopback.blocking { try cluster.postgres.createDatabase() }
      let relay = try await cluster.site.startServing(["RELAY_STORAGE_URL": empty])
      #expect(await relay.exit() == .code(1))
      #expect(relay.log().contains("relay migrate run"), "\(relay.log())")
      let status = try await cluster.site.run(["migrate", "status"], overrides: ["RELAY_STORAGE_URL": empty])
      #expect(status.exit == .code(1))
      let migrating = try await cluster.site.serve(["RELAY_STORAGE_URL": empty, "RELAY_STORAGE_MIGRATE": "true"])
      #expect(await migrating.terminate() == .code(0))
    }
  }
}
