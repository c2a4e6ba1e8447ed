/// Devices that are there to be connected: one account each, all with one password.
struct IdleDevices: Sendable {
  let count: Int
  private let password: String

  private static let firstNumber = 99_960_000_000

  /// Registers one account and has the database repeat it: 10,000 registrations would take longer than what is
  /// measured.
  init(_ count: Int, at servers: ServerGroup) async throws {
    self.count = count
    let registered = try await Registrar(keyCount: 1).register(1, firstDigits: 6, at: servers.alpha.url)
    guard let model = registered.first else { throw BenchmarkFailure("an account was not registered") }
    password = model.password
    // Signaling keys are bound to their accounts only under `storage.encryption-key`, which nobody sets here. Tokens
    // are nobody's, and not listed to peers.
    try await servers.postgres.with(servers.alpha.database) { database in
      try database.execute(
        """
        INSERT INTO accounts (account, token, active, supports_sms, voice)
        SELECT \(Self.firstNumber) + n, decode(left(md5(n::text), 20), 'hex'), false, false, false
        FROM generate_series(1, \(count)) AS n
        """)
      try database.execute(
        """
        INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, has_signed_prekey, last_seen, created)
        SELECT account + n, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, has_signed_prekey, last_seen, created
        FROM devices, generate_series(1, \(count)) AS n
        WHERE account = \(Self.firstNumber)
        """)
      try database.execute("ANALYZE accounts, devices")
    }
  }

  /// - Parameter index: 0..<count.
  func login(_ index: Int) -> SocketLogin {
    SocketLogin(number: "+\(Self.firstNumber + 1 + index)", password: password)
  }
}
