package import RelayCore

/// Puts new installations in the place of accounts (reference 1.4), past the locks of the former ones.
package struct Registrar: Sendable {
  private let store: any AccountStore
  private let accounts: AccountCache
  private let limits: CodeLimits
  private let locks: RegistrationLocks
  private let lockLifetime: Duration
  private let respectsClaims: Bool
  private let clock: WallClock
  private let directory: (any DirectoryMirror)?

  /// - Parameters:
  ///   - lockLifetime: how long after an account was last seen its registration lock holds.
  ///   - respectsClaims: whether a number that a peer lists cannot be registered here (reference 1.4, 417).
  ///   - directory: what look-ups of this process see; nil where they see the store itself.
  package init(
    store: any AccountStore, accounts: AccountCache, limits: CodeLimits, locks: RegistrationLocks,
    lockLifetime: Duration, respectsClaims: Bool, clock: WallClock, directory: (any DirectoryMirror)?
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
  /// Whoever has not proved the number learns nothing of its lock, neither by the answer nor by its time: the store
  /// looks at the lock after the code, everything before is done for locked and free accounts alike, and the pin is
  /// compared, and charged, only after the store has said that the proof holds.
  /// - Throws: `.codeRefused`, `.numberElsewhere`, `.registrationLocked`, `.rateLimited`, `.unavailable`.
  func register(_ applicant: Applicant, proof: RegistrationProof) async throws(Problem) {
    let pin = applicant.attributes.pin
    let newLock: PasswordHash? = if let pin { try await locks.hash(pin) } else { nil }
    let device = device(of: applicant)
    // Read from the store: what is cached may lack a lock that was set a moment ago elsewhere.
    let lock = try await lock(of: applicant.number)
    let isHeld = lock?.isHeld == true

    let proof = isHeld ? proof.withOneMoreTry : proof
    let first = registration(of: applicant, device, past: isHeld ? nil : lock?.hash, newLock)
    var outcome = try await attempt(first, proof)
    if outcome == .locked, isHeld, let lock {
      try await satisfy(lock.hash, with: pin, of: applicant.number)
      outcome = try await attempt(registration(of: applicant, device, past: lock.hash, newLock), proof)
    }
    switch outcome {
    case .registered:
      await accounts.changed(applicant.number)
      await directory?.catchUp()
    case .codeRefused: throw Problem(.codeRefused)
    case .numberElsewhere: throw Problem(.numberElsewhere)
    case .locked: throw Problem(.registrationLocked)
    }
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
    let limit = clock.now().adding(.zero - lockLifetime).startOfDay
    return Lock(hash: hash, isHeld: account.devices.contains { $0.lastSeen >= limit })
  }

  private func satisfy(_ lock: PasswordHash, with pin: Secret?, of number: AccountNumber) async throws(Problem) {
    guard let pin else { throw Problem(.registrationLocked) }
    try await limits.chargeLock(of: number)
    guard try await locks.verify(pin, against: lock) else { throw Problem(.registrationLocked) }
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
    of applicant: Applicant, _ device: Device, past satisfied: PasswordHash?, _ newLock: PasswordHash?
  ) -> Registration {
    Registration(
      number: applicant.number, token: ContactTokens.token(of: applicant.number), device: device,
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

extension RegistrationProof {
  /// The first of the two calls that a locked account takes counts as a try even when the pin is right. With one more,
  /// as many tries are good as on a free account: the last one's first call uses the code up.
  fileprivate var withOneMoreTry: RegistrationProof {
    switch self {
    case .code(let code, let triesMax): .code(code, triesMax: triesMax + 1)
    case .numberToken: self
    }
  }
}
