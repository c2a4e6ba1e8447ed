import GRDB
package import RelayCore

extension SQLiteStorage {
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    try await read { db in try account(number, in: db) }
  }

  package func accounts(_ numbers: [AccountNumber]) async throws(StoreError) -> [Account] {
    guard !numbers.isEmpty else { return [] }
    return try await read { db in try Set(numbers).compactMap { try account($0, in: db) } }
  }

  private func account(_ number: AccountNumber, in db: Database) throws -> Account? {
    let found = try db.row(
      """
      SELECT identity_key, supports_sms, voice, registration_lock_salt, registration_lock_hash
      FROM accounts WHERE account = \(number)
      """)
    guard let found else { return nil }
    return try Account(
      number: number, devices: devices(of: number, in: db), identityKey: found.optionalOpaque(0),
      supportsSMS: found.flag(1), voice: found.flag(2), registrationLock: PasswordHash(optional: found, at: 3))
  }

  package func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber] {
    let sealer = try await self.tokens()
    return try await read { db in
      try Set(tokens).compactMap { token in
        let sealed = try sealer.seal(token)
        return try db.row("SELECT account FROM accounts WHERE token = \(sealed) ORDER BY account LIMIT 1")?.number(0)
      }
    }
  }

  package func register(
    _ registration: Registration, proof: RegistrationProof, now: Timestamp
  ) async throws(StoreError) -> RegistrationOutcome {
    let token = try await tokens().seal(registration.token)
    let ban = try await knownCodes.value(in: self).banMark(of: registration.number)
    let proof = try await knownCodes.stored(proof, of: registration.number, in: self)
    return try await write { db in
      let number = registration.number
      let refusal = try Self.refusal(of: registration, token, proof: proof, ban: ban, now: now, in: db)
      if let refusal { return refusal }
      // A code to link a device with was for the former installation.
      for purpose in [CodePurpose.registration, .linking] { try Self.dropCode(purpose, of: number, in: db) }
      try Self.removeInstallation(of: number, in: db)
      try Self.changeListing(of: number, in: db) {
        try Self.insert(registration, token, isActive: registration.isActive(at: now), in: db)
      }
      try Self.endNumberTokens(of: number, proof: proof, now: now, in: db)
      try insert(registration.device, as: .master, of: number, in: db)
      return .registered
    }
  }

  /// - Returns: nil when `registration` may take the account's place.
  private static func refusal(
    of registration: Registration, _ token: StoredToken, proof: StoredProof, ban: StoredCode, now: Timestamp,
    in db: Database
  ) throws -> RegistrationOutcome? {
    let number = registration.number
    if case .numberToken(let second) = proof, try isVoid(second, of: number, in: db) { return .tokenRefused }
    if case .code(let code, let triesMax) = proof {
      guard try isPending(code, .registration, of: number, triesMax: triesMax, now: now, in: db) else {
        return .codeRefused
      }
    }
    if try isBanned(ban, in: db) { return .banned }
    if case .code = proof, registration.respectsClaims, try isElsewhere(registration, token, in: db) {
      return .numberElsewhere
    }
    let account = try db.row(
      "SELECT registration_lock_salt, registration_lock_hash FROM accounts WHERE account = \(number)")
    let lock = try account.flatMap { try PasswordHash(optional: $0, at: 0) }
    guard lock != registration.satisfiedLock else { return nil }
    if case .code(_, let triesMax) = proof { try countTry(.registration, of: number, triesMax: triesMax, in: db) }
    return .locked
  }

  /// Whether an active peer lists the number while we have no account of it.
  private static func isElsewhere(
    _ registration: Registration, _ token: StoredToken, in db: Database
  ) throws -> Bool {
    guard try db.row("SELECT 1 FROM accounts WHERE account = \(registration.number)") == nil else { return false }
    return try db.row(
      """
      SELECT 1 FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE c.token = \(token) AND c.unlisted IS NULL AND p.state = 'active' AND p.contacts_mode = 'copy' LIMIT 1
      """) != nil
  }

  /// Devices take their prekeys with them. A new installation begins with empty mailboxes that remember nothing.
  private static func removeInstallation(of number: AccountNumber, in db: Database) throws {
    try db.run("DELETE FROM devices WHERE account = \(number)")
    try db.run("DELETE FROM messages WHERE account = \(number)")
    try db.run("DELETE FROM acknowledged WHERE account = \(number)")
  }

  private static func insert(
    _ registration: Registration, _ token: StoredToken, isActive: Bool, in db: Database
  ) throws {
    try db.run(
      """
      INSERT INTO accounts (account, token, active, supports_sms, voice, registration_lock_salt, registration_lock_hash,
        discoverable)
      VALUES (\(registration.number), \(token), \(isActive), \(registration.supportsSMS), \(registration.voice),
        \(registration.newLock?.salt), \(registration.newLock?.hash), coalesce(\(registration.isDiscoverable), 1))
      ON CONFLICT (account) DO UPDATE SET token = excluded.token, active = excluded.active,
        supports_sms = excluded.supports_sms, voice = excluded.voice, identity_key = NULL,
        registration_lock_salt = excluded.registration_lock_salt,
        registration_lock_hash = excluded.registration_lock_hash,
        discoverable = coalesce(\(registration.isDiscoverable), discoverable)
      """)
  }

  /// Runs `change`, and raises the revision when peers have something new to read in the account's row.
  static func changeListing(of number: AccountNumber, in db: Database, _ change: () throws -> Void) throws {
    let former = try listing(of: number, in: db)
    try change()
    if try listing(of: number, in: db) != former { try db.raise(.accounts) }
  }

  private static func listing(of number: AccountNumber, in db: Database) throws -> StoredListing? {
    try db.row(
      "SELECT token, supports_sms, voice FROM accounts WHERE account = \(number) AND active AND discoverable"
    ).map(StoredListing.init(row:))
  }

  /// The part of an account that peers read, as it lies there: equal tokens are sealed alike.
  private struct StoredListing: Equatable {
    let token: StoredToken
    let supportsSMS: Bool
    let voice: Bool

    init(row: Fields) throws(StoreError) {
      token = try row.token(0)
      supportsSMS = try row.flag(1)
      voice = try row.flag(2)
    }
  }
}

extension PasswordHash {
  /// nil where its salt is NULL.
  /// - Parameter index: of the salt; the hash is the next one.
  fileprivate init?(optional row: Fields, at index: Int) throws(StoreError) {
    guard let salt = row.optionalBytes(index) else { return nil }
    self.init(salt: salt, hash: try row.bytes(index + 1))
  }
}

extension Registration {
  /// Whether the directory lists the account afterwards: the rule is `Account`'s.
  fileprivate func isActive(at now: Timestamp) -> Bool {
    Account(number: number, devices: [device], identityKey: nil, supportsSMS: supportsSMS, voice: voice)
      .isActive(at: now)
  }
}
