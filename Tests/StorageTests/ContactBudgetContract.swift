import Crypto
import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Different tokens, the same in every run.
private func tokens(_ indices: Range<Int>) -> [ContactToken] {
  indices.map { ContactToken(high: UInt64($0 + 1) &* 0x9E37_79B9_7F4A_7C15, low: UInt16($0 & 0xFFFF)) }
}

/// As many new ones, but for those that are taken for others: 1 % at most, of so many too.
private func isNew(_ count: Int, _ spending: ContactSpending) -> Bool {
  guard case .allowed(let new) = spending else { return false }
  return (count - 5 - count / 100...count).contains(new)
}

@Suite(.tags(.stores)) struct ContactBudgetContract {
  private static let allowance = LookUpAllowance(first: 1000, firstDays: 10, perDay: 100)
  private static let day: Int64 = 86_400

  @Test(arguments: CoordinationBackend.allCases)
  func `new contacts are counted, repeats are free, and a refusal counts nothing`(_ backend: CoordinationBackend)
    async throws
  {
    let clock = ManualClock(Sample.noon)
    try await backend.with(2, clock: clock) { coordination in
      let number = try Sample.number(1)
      func spend(_ indices: Range<Int>, process: Int = 0) async -> ContactSpending {
        await coordination[process].spend(tokens(indices), of: number, within: Self.allowance)
      }
      #expect(await spend(0..<0) == .allowed(new: 0))
      #expect(isNew(400, await spend(0..<400)))
      #expect(await spend(0..<400, process: 1) == .allowed(new: 0))
      #expect(isNew(200, await spend(200..<600, process: 1)))
      // Ten days, and another one.
      #expect(await spend(600..<1100) == .refused(retryAfter: .seconds(10 * Self.day)))
      #expect(await spend(600..<1150) == .refused(retryAfter: .seconds(11 * Self.day)))
      #expect(isNew(400, await spend(600..<1000)))
      #expect(await spend(0..<1000, process: 1) == .allowed(new: 0))
      #expect(await spend(950..<1050) == .refused(retryAfter: .seconds(10 * Self.day)))
      clock.advance(.seconds(10 * Self.day) - .milliseconds(1))
      #expect(await spend(1000..<1100) == .refused(retryAfter: .milliseconds(1)))
      clock.advance(.milliseconds(1))
      #expect(isNew(100, await spend(1000..<1100)))
      #expect(await spend(1100..<1150) == .refused(retryAfter: .seconds(Self.day)))
      clock.advance(.seconds(3 * Self.day))
      #expect(isNew(300, await spend(1100..<1400)))
      // Another account has its own.
      let other = try await coordination[0].spend(tokens(0..<1000), of: Sample.number(2), within: Self.allowance)
      #expect(isNew(1000, other))
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `an allowance that never grows refuses for good`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      let fixed = LookUpAllowance(first: 10, firstDays: 1, perDay: 0)
      let number = try Sample.number(1)
      #expect(await coordination[0].spend(tokens(0..<20), of: number, within: fixed) == .refused(retryAfter: nil))
      #expect(isNew(10, await coordination[0].spend(tokens(0..<10), of: number, within: fixed)))
      #expect(await coordination[0].spend(tokens(9..<20), of: number, within: fixed) == .refused(retryAfter: nil))
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `an address book of 20,000 is off by 1 % at most`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      let allowance = LookUpAllowance(first: 20_000, firstDays: 10, perDay: 2000)
      let number = try Sample.number(1)
      guard case .allowed(let new) = await coordination[0].spend(tokens(0..<20_000), of: number, within: allowance)
      else {
        Issue.record("an address book was refused")
        return
      }
      #expect((19_800...20_000).contains(new))
      guard case .refused = await coordination[0].spend(tokens(20_000..<20_500), of: number, within: allowance) else {
        Issue.record("more than the allowance was allowed")
        return
      }
      #expect(await coordination[0].spend(tokens(0..<20_000), of: number, within: allowance) == .allowed(new: 0))
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `of 16 that ask at once, as many are allowed as the allowance holds`(_ backend: CoordinationBackend) async throws
  {
    try await backend.with(2) { coordination in
      let number = try Sample.number(1)
      let allowed = await withTaskGroup(of: Bool.self) { group in
        for caller in 0..<16 {
          let process = coordination[caller % 2]
          group.addTask { await Self.isAllowed(caller, of: number, by: process) }
        }
        return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(allowed == 10)
    }
  }

  /// A hundred contacts of the caller's own. A caller that is told to come again at once comes again.
  private static func isAllowed(_ caller: Int, of number: AccountNumber, by process: any Coordination) async -> Bool {
    for _ in 0..<1000 {
      let wanted = tokens(caller * 100..<caller * 100 + 100)
      switch await process.spend(wanted, of: number, within: allowance) {
      case .allowed: return true
      case .refused(let wait): if wait != .seconds(1) { return false }
      }
    }
    return false
  }
}

@Suite(.tags(.stores)) struct RedisBudgetTests {
  private static let allowance = LookUpAllowance(first: 100, firstDays: 10, perDay: 0)

  private static func key(_ number: AccountNumber) -> String {
    let digest = Array(SHA256.hash(data: Data(number.e164.utf8)).prefix(16))
    return "relay:contacts:\(Base64.encodeURLSafe(digest))"
  }

  @Test func `an account's contacts lie under no number, and go when it has not asked for long`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        let number = try Sample.number(1)
        let refused = await coordination[0].spend(tokens(0..<120), of: number, within: Self.allowance)
        #expect(refused == .refused(retryAfter: nil))
        #expect(try server.command("DBSIZE") == ":0")
        let spent = await coordination[0].spend(tokens(0..<60), of: number, within: Self.allowance)
        #expect(isNew(60, spent))
        #expect(try server.command("DBSIZE") == ":1")
        let key = Self.key(number)
        #expect(try server.command("STRLEN \(key)") == ":\(40 + 8 + 256)")
        let days = 40 * 86_400
        func life() throws -> Int { try #require(Int(server.command("TTL \(key)").dropFirst())) }
        #expect(try (days - 600...days).contains(life()))
        // An account that asks is remembered for that long again.
        try server.command("EXPIRE \(key) 100")
        let repeated = await coordination[0].spend(tokens(0..<60), of: number, within: Self.allowance)
        #expect(repeated == .allowed(new: 0))
        #expect(try (days - 600...days).contains(life()))
      }
    }
  }

  @Test func `days are those of Redis's clock if no other one is given`() async throws {
    try await RedisServer.with { server in
      let coordination = try RedisCoordination(
        RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port)), clock: ManualClock(Sample.noon).wall,
        logger: .quiet)
      try await eventually("Redis is reached") { await coordination.degradation() == nil }
      let growing = LookUpAllowance(first: 10, firstDays: 0, perDay: 5)
      let number = try Sample.number(1)
      // From the first day on.
      #expect(isNew(15, await coordination.spend(tokens(0..<15), of: number, within: growing)))
      guard case .refused(let wait?) = await coordination.spend(tokens(15..<16), of: number, within: growing) else {
        Issue.record("more than the allowance was allowed")
        return
      }
      #expect(wait > .seconds(86_400 - 600) && wait <= .seconds(86_400))
      await coordination.close()
    }
  }

  @Test func `without Redis a process counts by itself, and with Redis again it continues there`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        let coordination = coordination[0]
        let number = try Sample.number(1)
        func spend(_ indices: Range<Int>) async -> ContactSpending {
          await coordination.spend(tokens(indices), of: number, within: Self.allowance)
        }
        #expect(isNew(60, await spend(0..<60)))
        server.pause()
        #expect(isNew(80, await spend(0..<80)))
        #expect(await spend(80..<120) == .refused(retryAfter: nil))
        #expect(await coordination.degradation() != nil)
        server.resume()
        try await eventually("Redis is used again") { await coordination.degradation() == nil }
        #expect(await spend(0..<60) == .allowed(new: 0))
        #expect(isNew(40, await spend(60..<100)))
      }
    }
  }

  @Test func `a Redis that forgot an account, or holds something else there, lets it begin anew`() async throws {
    try await RedisServer.with { server in
      try await withRedis(server) { coordination in
        let number = try Sample.number(1)
        func spend() async -> ContactSpending {
          await coordination[0].spend(tokens(0..<60), of: number, within: Self.allowance)
        }
        #expect(isNew(60, await spend()))
        // Its scripts are gone too.
        try server.flush()
        #expect(isNew(60, await spend()))
        for damage in ["SET \(Self.key(number)) x", "SETRANGE \(Self.key(number)) 45 zzzzzz"] {
          try server.command(damage)
          #expect(isNew(60, await spend()))
          #expect(await spend() == .allowed(new: 0))
        }
        // A value that is no text at all: the process counts by itself.
        try server.command("DEL \(Self.key(number))")
        try server.command("RPUSH \(Self.key(number)) x")
        #expect(isNew(60, await spend()))
        #expect(await spend() == .allowed(new: 0))
      }
    }
  }
}
