import RelayCore
import Storage
import TestTags
import Testing

// The proofs of a registration beside a code: a number token, and the former installation's registration lock.

@Suite(.tags(.stores)) struct RegistrationContract {
  @Test(arguments: Backend.allCases)
  func `a lock is kept, asked for, and replaced by the new installation's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (first, second) = (Sample.lock(1), Sample.lock(2))
      #expect(try await store.register(Sample.registration(1, newLock: first)) == .registered)
      #expect(try await store.storage.account(Sample.number(1))?.registrationLock == first)

      let next = try Sample.registration(1, registrationID: 8, satisfiedLock: first, newLock: second)
      #expect(try await store.register(next) == .registered)
      #expect(try await store.storage.account(Sample.number(1))?.registrationLock == second)

      #expect(try await store.register(Sample.registration(1, satisfiedLock: second)) == .registered)
      #expect(try await store.storage.account(Sample.number(1))?.registrationLock == nil)
      #expect(try await store.register(Sample.registration(1)) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a lock that is missing or not the present one refuses, and changes nothing`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let lock = Sample.lock(1)
      try await store.register(Sample.registration(1, newLock: lock))
      let before = try await store.storage.account(Sample.number(1))
      let mailbox = try Sample.address(1)
      try await store.storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)])

      // A caller that read the lock before it was changed has satisfied another one.
      for satisfied in [nil, Sample.lock(2), PasswordHash(salt: lock.salt, hash: Sample.lock(2).hash)] {
        let attempt = try Sample.registration(1, registrationID: 9, satisfiedLock: satisfied)
        #expect(try await store.register(attempt) == .locked)
      }
      #expect(try await store.storage.account(Sample.number(1)) == before)
      #expect(try await store.mailbox(mailbox).count == 1)
      // The code of the last attempt stays pending.
      #expect(try await store.use(Store.code, for: Sample.registration(1, satisfiedLock: lock)) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a lock that was removed meanwhile refuses the caller that satisfied it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let attempt = try Sample.registration(1, satisfiedLock: Sample.lock(1))
      #expect(try await store.register(attempt) == .locked)
      #expect(try await store.use(Store.code, for: Sample.registration(1)) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a lock that is not satisfied counts as a try`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let lock = Sample.lock(1)
      try await store.register(Sample.registration(1, newLock: lock))
      try await store.expect(Store.code, for: Sample.number(1))
      for _ in 0..<3 {
        #expect(try await store.use(Store.code, triesMax: 3, for: Sample.registration(1)) == .locked)
      }
      let right = try Sample.registration(1, satisfiedLock: lock)
      #expect(try await store.use(Store.code, triesMax: 3, for: right) == .codeRefused)
      // A wrong code says nothing of the lock.
      try await store.expect(Store.code, for: Sample.number(1))
      #expect(try await store.use(Secret("654321"), for: Sample.registration(1)) == .codeRefused)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a number token needs no code, and no word of a peer stops it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let registration = try Sample.registration(1)
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let listed = ListedAccount(token: registration.token, isInactive: false, supportsSMS: true, voice: true)
      try await store.storage.mergeContacts([listed], of: Sample.relay("beta"), pass: 1)

      #expect(try await store.useToken(for: registration) == .registered)
      #expect(try await store.storage.account(registration.number)?.devices == [registration.device])
      #expect(try await store.storage.entries(for: [registration.token]).map(\.relay) == [nil])
      // Again, over an account with devices and messages.
      try await store.storage.append([Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 1)])
      let again = try Sample.registration(1, registrationID: 8)
      #expect(try await store.useToken(for: again) == .registered)
      #expect(try await store.storage.account(registration.number)?.devices == [again.device])
      #expect(try await store.mailbox(Sample.address(1)).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a number token opens no lock, and uses a pending code up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let lock = Sample.lock(1)
      try await store.register(Sample.registration(1, newLock: lock))
      try await store.expect(Store.code, for: Sample.number(1))
      #expect(try await store.useToken(for: Sample.registration(1)) == .locked)
      #expect(try await store.useToken(for: Sample.registration(1, satisfiedLock: Sample.lock(2))) == .locked)
      #expect(try await store.storage.account(Sample.number(1))?.registrationLock == lock)

      #expect(try await store.useToken(for: Sample.registration(1, satisfiedLock: lock)) == .registered)
      #expect(try await store.use(Store.code, for: Sample.registration(1)) == .codeRefused)
    }
  }

  @Test(arguments: Backend.allCases)
  func `of several registrations that set a lock at once, none passes another's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      // No caller has satisfied the lock that the first one sets.
      let outcomes = try await withThrowingTaskGroup(of: RegistrationOutcome.self) { group in
        for caller in 0..<32 {
          group.addTask {
            try await store.storage.register(
              Sample.registration(1, newLock: Sample.lock(UInt8(caller))), proof: .trusted, now: store.now)
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.count { $0 == .registered } == 1)
      #expect(outcomes.count { $0 == .locked } == 31)
      #expect(try await store.storage.account(Sample.number(1))?.devices.count == 1)
    }
  }
}

extension Store {
  /// Registers with a number token.
  fileprivate func useToken(for registration: Registration) async throws -> RegistrationOutcome {
    let drawn = try await storage.account(registration.number)?.device(.master)?.password
    var second = now.millis / 1000
    if let drawn, let own = try await storage.drawNumberToken(for: registration.number, by: drawn, now: now) {
      second = own
    }
    return try await storage.register(registration, proof: .numberToken(second: second), now: now)
  }
}
