import RelayCore
import Storage
import TestTags
import Testing

// Number tokens: which seconds hold for an account. And the code that is looked at before anything else.

@Suite(.tags(.stores)) struct NumberTokenContract {
  private func use(_ second: Int64, _ store: Store, registrationID: Int32 = 7) async throws -> RegistrationOutcome {
    try await store.storage.register(
      Sample.registration(1, registrationID: registrationID), proof: .numberToken(second: second), now: store.now)
  }

  private func draw(_ store: Store, now: Timestamp? = nil) async throws -> Int64? {
    let number = try Sample.number(1)
    let password = try #require(try await store.storage.account(number)?.device(.master)?.password)
    return try await store.storage.drawNumberToken(for: number, by: password, now: now ?? store.now)
  }

  @Test(arguments: Backend.allCases)
  func `a token is good once, and the next one bears another second`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let first = try #require(try await draw(store))
      #expect(try await draw(store) == first)
      #expect(try await use(first, store, registrationID: 8) == .registered)
      #expect(try await use(first, store, registrationID: 9) == .tokenRefused)
      #expect(try await store.storage.account(Sample.number(1))?.devices.map(\.registrationID) == [8])
      let second = try #require(try await draw(store))
      #expect(second > first)
      #expect(try await use(second, store) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `64 callers with one token make one registration`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let second = try #require(try await draw(store))
      let registered = try await withThrowingTaskGroup(of: RegistrationOutcome.self) { group in
        for caller in 0..<64 { group.addTask { try await use(second, store, registrationID: Int32(caller)) } }
        return try await group.reduce(0) { $0 + ($1 == .registered ? 1 : 0) }
      }
      #expect(registered == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a registration ends the tokens drawn before, also those of a clock ahead`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let drawn = [
        try #require(try await draw(store)), try #require(try await draw(store, now: store.now.adding(.seconds(50)))),
      ]
      try await store.register(Sample.registration(1))
      for second in drawn { #expect(try await use(second, store) == .tokenRefused) }
      // The next one is the new installation's, whatever the clocks say.
      let next = try #require(try await draw(store))
      #expect(next > drawn[1])
      #expect(try await use(next, store) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `only the installation that there is draws one`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let number = try Sample.number(1)
      let former = try Sample.registration(1)
      try await store.register(former)
      let other = PasswordHash(salt: former.device.password.salt, hash: Array(repeating: 9, count: 32))
      #expect(try await store.storage.drawNumberToken(for: number, by: other, now: store.now) == nil)
      #expect(
        try await store.storage.drawNumberToken(
          for: Sample.number(2), by: former.device.password, now: store.now) == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a number without an account has no tokens that are void; then the first is`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let second = store.now.millis / 1000 - 30
      let outcomes = [try await use(second, store), try await use(second, store)]
      #expect(outcomes == [.registered, .tokenRefused])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a code that is looked at stays, a wrong one is a try`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let number = try Sample.number(1)
      let check = { (code: Secret, now: Timestamp) in
        try await store.storage.checkVerificationCode(code, for: number, triesMax: 3, now: now)
      }
      #expect(try await !check(Store.code, store.now))
      try await store.expect(Store.code, for: number)
      for _ in 0..<5 { #expect(try await check(Store.code, store.now)) }
      for _ in 0..<2 { #expect(try await !check(Secret("654321"), store.now)) }
      #expect(try await check(Store.code, store.now))
      #expect(try await !check(Store.code, store.now.adding(.seconds(86_400))))
      #expect(try await !check(Secret("654321"), store.now))
      #expect(try await !check(Store.code, store.now))
      #expect(try await store.use(Store.code, for: Sample.registration(1)) == .codeRefused)
    }
  }
}
