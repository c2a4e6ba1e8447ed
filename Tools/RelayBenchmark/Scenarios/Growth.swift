import ChildProcesses
import RelayClient

/// Whether a message costs more the more accounts a relay has, and the more peers its messages go to.
///
/// Each connection sends to a share of the accounts in turn, so that with many accounts nearly every message is for one
/// that the relay has not looked at lately.
struct Growth: Sendable {
  private static let keyPlace = 1_000_000
  private static let firstNumber = 99_990_000_000 + keyPlace
  /// Recipients at each peer.
  private static let recipientsEach = 8

  let servers: ServerGroup
  let settings: BenchmarkSettings

  func run() async throws -> GrowthFigures {
    let senders = try await ExtraPopulation(servers, settings: settings, place: 2).senders
    return GrowthFigures(accounts: try await accounts(senders), peers: try await peers(senders))
  }

  // MARK: Accounts

  private func accounts(_ senders: [BenchmarkAccount]) async throws -> [GrowthFigures.Point] {
    let registered = try await Registrar(keyCount: 1).register(
      1, firstDigits: 9, from: Self.keyPlace, at: servers.alpha.url)
    guard let model = registered.first else { throw BenchmarkFailure("an account was not registered") }
    var (points, present): ([GrowthFigures.Point], Int) = ([], 0)
    for count in settings.growthAccounts {
      note("Making \(count) accounts ...")
      try await add(from: present, to: count)
      present = count
      note("Measuring messages for \(count) accounts ...")
      let share = max(1, count / settings.connections)
      let result = try await load(senders, relay: nil) { index in
        (0..<share).map { place in
          let number = Self.firstNumber + 1 + (index * share + place) % count
          return BenchmarkAccount(
            number: "+\(number)", authorization: "", password: model.password, signalingKey: model.signalingKey)
        }
      }
      points.append(GrowthFigures.Point(count: count, result))
    }
    return points
  }

  /// The database repeats the registered account: to register a million would take hours. Their tokens are nobody's,
  /// and not listed to peers.
  private func add(from present: Int, to count: Int) async throws {
    try await servers.postgres.with(servers.alpha.database) { database in
      try database.execute("SET synchronous_commit = off")
      try database.execute(
        """
        INSERT INTO accounts (account, token, active, supports_sms, voice)
        SELECT \(Self.firstNumber) + n, decode(left(md5('growth' || n), 20), 'hex'), false, false, false
        FROM generate_series(\(present + 1), \(count)) AS n
        """)
      try database.execute(
        """
        INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, has_signed_prekey, last_seen, created)
        SELECT account + n, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, has_signed_prekey, last_seen, created
        FROM devices, generate_series(\(present + 1), \(count)) AS n
        WHERE account = \(Self.firstNumber)
        """)
      try database.execute("VACUUM (ANALYZE) accounts, devices")
    }
    try await servers.postgres.settle()
  }

  // MARK: Peers

  /// Alpha's messages go to so many peers in turn, each a relay over embedded stores, with some accounts.
  private func peers(_ senders: [BenchmarkAccount]) async throws -> [GrowthFigures.Point] {
    var (points, guests): ([GrowthFigures.Point], [(name: String, accounts: [BenchmarkAccount])]) = ([], [])
    for count in settings.growthPeers {
      note("Starting peers, \(count) in all ...")
      while guests.count < count {
        let guest = try await servers.addGuest("guest\(guests.count + 1)")
        let accounts = try await Registrar(keyCount: 1).register(
          Self.recipientsEach, firstDigits: 9, from: 5_000_000 + guests.count * Self.recipientsEach, at: guest.url)
        guests.append((guest.name, accounts))
      }
      note("Measuring messages for \(count) peers ...")
      // A connection keeps to one peer: a request's length would change with the peer's name.
      let all = guests
      let result = try await load(senders, relay: { all[$0 % count].name }) { all[$0 % count].accounts }
      points.append(GrowthFigures.Point(count: count, result))
    }
    return points
  }

  private func load(
    _ senders: [BenchmarkAccount], relay: (@Sendable (Int) -> String)?,
    _ recipients: @Sendable (Int) -> [BenchmarkAccount]
  ) async throws -> LoadResult {
    try await servers.postgres.settle()
    let (body, now) = (randomBytes(settings.bodyBytes), RelayClient.now())
    let works = try senders.enumerated().map { index, sender in
      try MessageWorkload(
        from: sender, to: recipients(index), beginningAt: index, relay: relay?(index), body: body, timestamp: now)
    }
    let result = try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds), pacePerSecond: nil
    )
    .run(works, port: servers.alpha.ports.client, readUsage: UsageWindow(servers, settings).read)
    try result.demandSuccess(of: Measurement(relay == nil ? .messagesLocal : .messagesFederated))
    return result
  }
}
