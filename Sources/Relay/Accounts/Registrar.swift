package import RelayCore

/// Puts new installations in the place of accounts (reference 1.4), past the locks of the former ones.
package struct Registrar: Sendable {
  private let store: any AccountStore
  private let accounts: AccountCache
  private let limits: CodeLimits
  private let locks: RegistrationLocks
  private let lockLifetime: Duration
  private let respectsClaims: Bool
  private let clock: JudgedClock
  private let directory: (any DirectoryMirror)?

  /// - Parameters:
  ///   - lockLifetime: how long after an account was last seen its registration lock holds.
  ///   - respectsClaims: whether a number that a peer lists cannot be registered here (reference 1.4, 417).
  ///   - directory: what look-ups of this process see; nil where they see the store itself.
  package init(
    store: any AccountStore, accounts: AccountCache, limits: CodeLimits, locks: RegistrationLocks,
    lockLifetime: Duration, respectsClaims: Bool, clock: JudgedClock, directory: (any DirectoryMirror)?
  ) {
    self.store = store
    self.accounts = accounts
    self.limits = limits
    self.locks = locks
    self.lockLifetime = lockLifetime
    self.respectsClaims = respectsClaims
    self.clock = clock
    self.directory = directory
  }

  /// A device 1 to be, as its request describes it.
  struct Applicant: Sendable {
    let number: AccountNumber
    let password: Secret
    let attributes: AccountAttributes
    let agent: String?
  }

  /// Registers `applicant` if `proof` holds, and its pin is that of the account's lock.
  ///
  /// An applicant that has not proved the number learns nothing of its lock, neither by the answer nor by its time.
  /// It makes this process derive nothing: the store says that the code is right before a pin is worked on. Without a
  /// pin the store looks at the code before the lock. The registration itself judges the code again, and uses it up.
  /// - Throws: `.codeRefused`, `.tokenRefused`, `.numberElsewhere`, `.numberBanned`, `.registrationLocked`,
  ///   `.rateLimited`, `.unavailable`.
  func register(_ applicant: Applicant, proof: RegistrationProof) async throws(Problem) {
    let pin = applicant.attributes.pin
    if pin != nil { try await checkCode(of: applicant.number, proof) }
    // Read from the store: what is cached may lack a lock that was set a moment ago elsewhere.
    let lock = try await lock(of: applicant.number)
    var satisfied = lock?.isHeld == false ? lock?.hash : nil
    if let pin, let lock, lock.isHeld, try await isRight(pin, for: lock.hash, of: applicant.number) {
      satisfied = lock.hash
    }
    let newLock: PasswordHash? = if let pin { try await locks.hash(pin) } else { nil }

    // A wrong pin goes on to here: the store counts the try.
    switch try await attempt(registration(of: applicant, past: satisfied, newLock), proof) {
    case .registered:
      await accounts.changed(applicant.number)
      await directory?.catchUp()
    case .codeRefused: throw Problem(.codeRefused)
    case .tokenRefused: throw Problem(.tokenRefused)
    case .numberElsewhere: throw Problem(.numberElsewhere)
    case .banned: throw Problem(.numberBanned)
    case .locked: throw Problem(.registrationLocked)
    }
  }

  /// A number token needs no check here: its signature has proved the number.
  private func checkCode(of number: AccountNumber, _ proof: RegistrationProof) async throws(Problem) {
    guard case .code(let code, let triesMax) = proof else { return }
    do throws(StoreError) {
      if try await store.checkVerificationCode(code, for: number, triesMax: triesMax, now: clock.now()) { return }
    } catch {
      throw Problem(error)
    }
    throw Problem(.codeRefused)
  }

  private struct Lock {
    let hash: PasswordHash
    /// An expired lock lets everybody pass.
    let isHeld: Bool
  }

  private func lock(of number: AccountNumber) async throws(Problem) -> Lock? {
    let account: Account?
    do throws(StoreError) {
      account = try await store.account(number)
    } catch {
      throw Problem(error)
    }
    guard let account, let hash = account.registrationLock else { return nil }
    // "Seen" is known to the day: the lock holds for its whole time at least.
    let limit = clock.believed().adding(.zero - lockLifetime).startOfDay
    return Lock(hash: hash, isHeld: account.devices.contains { $0.lastSeen >= limit })
  }

  private func isRight(_ pin: Secret, for lock: PasswordHash, of number: AccountNumber) async throws(Problem) -> Bool {
    try await limits.chargeLock(of: number)
    if try await locks.verify(pin, against: lock) { return true }
    limits.noteWrongPin()
    return false
  }

  private func device(of applicant: Applicant) -> Device {
    let now = clock.now()
    let attributes = applicant.attributes
    return Device(
      id: .master, password: Passwords.hash(applicant.password), signalingKey: attributes.signalingKey,
      registrationID: attributes.registrationID, fetchesMessages: attributes.fetchesMessages, name: attributes.name,
      userAgent: applicant.agent, lastSeen: now.startOfDay, created: now)
  }

  private func registration(
    of applicant: Applicant, past satisfied: PasswordHash?, _ newLock: PasswordHash?
  ) -> Registration {
    Registration(
      number: applicant.number, token: ContactTokens.token(of: applicant.number), device: device(of: applicant),
      supportsSMS: applicant.attributes.supportsSMS, voice: applicant.attributes.voice, satisfiedLock: satisfied,
      newLock: newLock, respectsClaims: respectsClaims, isDiscoverable: applicant.attributes.isDiscoverable)
  }

  private func attempt(_ registration: Registration, _ proof: RegistrationProof) async throws(Problem)
    -> RegistrationOutcome
  {
    try await accounts.attempt(registration.number) { () async throws(StoreError) in
      try await store.register(registration, proof: proof, now: clock.now())
    }
  }
}
