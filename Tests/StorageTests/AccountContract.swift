import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct AccountContract {
  @Test(arguments: Backend.allCases)
  func `an account comes back as it was registered`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let registration = try Sample.registration(1, supportsSMS: false, voice: true)
      #expect(try await store.storage.account(registration.number) == nil)
      #expect(try await store.register(registration) == .registered)

      let account = try #require(try await store.storage.account(registration.number))
      #expect(account.number == registration.number)
      #expect(account.devices == [registration.device])
      #expect(account.identityKey == nil)
      #expect(!account.supportsSMS)
      #expect(account.voice)
      #expect(account.registrationLock == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a registration takes the place of devices, keys and messages`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (own, other) = try (Sample.address(1), Sample.address(2))
      for address in [own, other] {
        #expect(
          try await store.storage.replacePreKeys(of: address, with: Sample.upload([1, 2], signed: Sample.signedKey(1)))
            == .stored)
        try await store.storage.append([Sample.envelope(to: address, from: Sample.address(0), id: 1)])
      }

      let again = try Sample.registration(1, registrationID: 99)
      #expect(try await store.register(again) == .registered)

      let account = try #require(try await store.storage.account(own.account))
      #expect(account.devices == [again.device])
      #expect(account.identityKey == nil)
      #expect(try await store.storage.preKeyCount(of: own) == 0)
      #expect(try await store.draw(from: own.account).isEmpty)
      #expect(try await store.storage.signedPreKey(of: own) == nil)
      #expect(try await store.mailbox(own).isEmpty)
      // No other device's are touched.
      #expect(try await store.storage.preKeyCount(of: other) == 2)
      #expect(try await store.mailbox(other).count == 1)
    }
  }

  @Test(arguments: Backend.allCases) func `a code is used once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let registration = try Sample.registration(1)
      #expect(try await store.register(registration) == .registered)
      let repeated = try await store.use(Store.code, for: registration)
      #expect(repeated == .codeRefused)
    }
  }

  @Test(arguments: Backend.allCases)
  func `64 callers with one right code make one registration`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let number = try Sample.number(1)
      try await store.expect(Store.code, for: number)
      let registered = try await withThrowingTaskGroup(of: RegistrationOutcome.self) { group in
        for caller in 0..<64 {
          group.addTask {
            try await store.use(Store.code, for: Sample.registration(1, registrationID: Int32(caller)))
          }
        }
        return try await group.reduce(0) { $0 + ($1 == .registered ? 1 : 0) }
      }
      #expect(registered == 1)
    }
  }

  @Test(arguments: Backend.allCases) func `a code ends at its time of expiry`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let registration = try Sample.registration(1)
      let code = VerificationCode(code: Store.code, expires: store.now.adding(.seconds(60)))
      try await store.storage.setVerificationCode(code, for: registration.number, purpose: .registration)
      #expect(try await store.use(Store.code, for: registration, now: code.expires) == .codeRefused)
      let justInTime = Timestamp(millis: code.expires.millis - 1)
      #expect(try await store.use(Store.code, for: registration, now: justInTime) == .registered)
    }
  }

  @Test(arguments: Backend.allCases) func `wrong tries use a code up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let registration = try Sample.registration(1)
      let code = VerificationCode(code: Store.code, expires: store.now.adding(.seconds(60)))
      func attempt(_ text: String) async throws -> RegistrationOutcome {
        try await store.use(Secret(text), triesMax: 3, for: registration)
      }
      try await store.storage.setVerificationCode(code, for: registration.number, purpose: .registration)
      for _ in 0..<3 { #expect(try await attempt("654321") == .codeRefused) }
      #expect(try await attempt(Store.code.value) == .codeRefused)
      #expect(try await store.storage.account(registration.number) == nil)

      // A new code starts with no tries used.
      try await store.storage.setVerificationCode(code, for: registration.number, purpose: .registration)
      for _ in 0..<2 { #expect(try await attempt("654321") == .codeRefused) }
      #expect(try await attempt(Store.code.value) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `only the last code of a number counts, and only for that number`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (one, two) = try (Sample.registration(1), Sample.registration(2))
      let (older, newer) = (Secret("111111"), Secret("222222"))
      for code in [older, newer] { try await store.expect(code, for: one.number) }
      #expect(try await store.use(older, for: one) == .codeRefused)
      #expect(try await store.use(newer, for: two) == .codeRefused)
      #expect(try await store.use(newer, for: one) == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a number that an active peer lists is refused, unless it is ours already`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let beta = try Sample.relay("beta")
      let listed = try [1, 2].map {
        try ListedAccount(token: Sample.token(Sample.number($0)), isInactive: false, supportsSMS: true, voice: true)
      }
      try await store.storage.mergeContacts(listed, of: beta, pass: 1)
      #expect(try await store.register(Sample.registration(1, registrationID: 8)) == .registered)

      let theirs = try Sample.registration(2)
      #expect(try await store.register(theirs) == .numberElsewhere)
      #expect(try await store.storage.account(theirs.number) == nil)
      #expect(try await store.storage.accountCount() == 1)
      // The code stays pending, for the time when the peer no longer claims the number.
      #expect(try await store.storage.setPeerState(.suspended, of: beta))
      let again = try await store.use(Store.code, for: theirs)
      #expect(again == .registered)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a banned number is refused as banned, also if a peer lists it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let theirs = try Sample.registration(2)
      let listed = try ListedAccount(
        token: Sample.token(theirs.number), isInactive: false, supportsSMS: true, voice: true)
      try await store.storage.mergeContacts([listed], of: Sample.relay("beta"), pass: 1)
      #expect(try await store.storage.removeAccount(theirs.number, of: nil, isBanned: true) == nil)
      #expect(try await store.register(theirs) == .banned)
    }
  }
}

extension Store {
  /// Remembers `code` as the pending one of `number` for ten minutes.
  func expect(_ code: Secret, for number: AccountNumber, purpose: CodePurpose = .registration) async throws {
    let pending = VerificationCode(code: code, expires: now.adding(.seconds(600)))
    try await storage.setVerificationCode(pending, for: number, purpose: purpose)
  }

  /// Registers with a code as it is typed.
  func use(
    _ code: Secret, triesMax: Int = 5, for registration: Registration, now: Timestamp? = nil
  ) async throws -> RegistrationOutcome {
    try await storage.register(registration, proof: .code(code, triesMax: triesMax), now: now ?? self.now)
  }
}
