// Sealing the contact tokens of a store that holds them as they are (`relay storage seal-contacts`;
// docs/directory.md, "At rest"). Rows are sealed some at a time, in a transaction each. Until all are, a row in
// `server_secrets` keeps every relay from working on the store. A sealed token is told by its length, so the work
// resumes wherever it ended.

package import RelayCore
import RelayWork

extension PostgresStorage {
  package func sealContacts(
    progress: @Sendable (ContactSealingProgress) -> Void
  ) async throws(ContactSealingFailure) {
    let refusal: ContactSealingFailure?
    do throws(StoreError) {
      refusal = try await maintenance.run(limit: Self.statementMax) { connection throws(StoreError) in
        try await seal(over: connection, progress)
      }
    } catch {
      throw .store(error)
    }
    knownTokens.forget()
    if let refusal { throw refusal }
  }

  /// Other processes may be at work on it: `sealContacts` sees to that.
  package func sealIfEmpty() async throws(StoreError) -> Bool { false }

  /// - Returns: why nothing was done.
  private func seal(
    over connection: PostgresConnection, _ progress: @Sendable (ContactSealingProgress) -> Void
  ) async throws(StoreError) -> ContactSealingFailure? {
    guard let newKey = try TokenState.newKey(sealer) else { return .noEncryptionKey }
    let state = try await Self.tokenState(over: connection)
    switch state.sealing(sealer) {
    case .sealed: return nil
    case .locked: return .locked
    case .plain, .underWay: break
    }
    // Before anything is written: a relay that starts again beside others is not kept from it.
    var others = try await lastingConnections(than: connection)
    if others == 0 {
      // A process that starts from now on finds it, and one that was faster is seen next.
      try await Self.begin(with: newKey, over: connection)
      others = try await lastingConnections(than: connection)
    }
    guard others == 0 else {
      try await Self.withdraw(over: connection)
      return .inUse(connections: others)
    }
    guard let key = try await Self.tokenState(over: connection).sealedKey else {
      throw .corrupted(reason: "the table server_secrets lacks a row")
    }
    try await sealAll(with: TokenSealer(key: sealer.open(key, named: TokenState.keyName)), over: connection, progress)
    return nil
  }

  private func sealAll(
    with tokens: TokenSealer, over connection: PostgresConnection,
    _ progress: @Sendable (ContactSealingProgress) -> Void
  ) async throws(StoreError) {
    var (done, total) = (0, try await Self.plainCount(over: connection))
    // From here on by key: the tables change while they are read.
    try await connection.run(Self.settings)
    for column in TokenColumn.all {
      var last = column.beginning
      while let (reached, sealed) = try await column.sealNext(behind: last, tokens, over: connection) {
        last = reached
        done += sealed
        total = max(total, done)
        if sealed > 0 { progress(ContactSealingProgress(done: done, total: total)) }
        guard !Task.isCancelled else { throw .unavailable(reason: "the caller gave up") }
      }
    }
    // Written anew, so that what is left of plain tokens in the tables' files goes with the former ones.
    for column in TokenColumn.all { try await connection.run("CLUSTER \(column.table) USING \(column.table)_pkey") }
    // The checks find out whether a plain one is left.
    try await connection.perform(
      Self.tokenChecks + [
        PostgresStep(once: "DELETE FROM server_secrets WHERE name = \(TokenState.progressName)")
      ])
  }

  /// Each portion costs what it holds, whatever statistics say. Only the server's own vacuum works here besides, and
  /// it gives way.
  private static let settings = """
    SELECT set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
      set_config('enable_sort', 'off', false), set_config('enable_hashjoin', 'off', false),
      set_config('enable_mergejoin', 'off', false), set_config('lock_timeout', '30000', false)
    """

  private static func tokenState(over connection: PostgresConnection) async throws(StoreError) -> TokenState {
    try TokenState(in: await connection.perform([TokenState.step]))
  }

  /// From here on no relay starts here.
  /// - Parameter key: for a store that has none.
  private static func begin(with key: [UInt8], over connection: PostgresConnection) async throws(StoreError) {
    let (names, secrets): ([String], [[UInt8]]) = ([TokenState.keyName, TokenState.progressName], [key, [1]])
    let insertion = PostgresStep(
      once: """
        INSERT INTO server_secrets (name, secret)
        SELECT r.name, r.secret FROM unnest(\(each: names), \(each: secrets)) AS r (name, secret)
        ON CONFLICT (name) DO NOTHING
        """)
    try await connection.perform([insertion])
  }

  /// Takes back what was begun, now or by a process that died of it, unless a token lies sealed.
  private static func withdraw(over connection: PostgresConnection) async throws(StoreError) {
    guard try await tokenState(over: connection).isUnderWay, try await !holdsSealed(over: connection) else { return }
    try await connection.perform([
      PostgresStep(once: "DELETE FROM server_secrets WHERE name = ANY (\(each: TokenState.names))")
    ])
  }

  private static func holdsSealed(over connection: PostgresConnection) async throws(StoreError) -> Bool {
    let each = TokenColumn.all.map {
      "EXISTS (SELECT FROM \($0.table) WHERE octet_length(token) = \(TokenSealer.sealedBytes))"
    }
    let any = each.joined(separator: " OR ")
    let found = try await connection.perform([PostgresStep(.once("SELECT \(any)"))])
    var row = found.cursor(row: 0)
    return try row.boolean()
  }

  private static func plainCount(over connection: PostgresConnection) async throws(StoreError) -> Int {
    let counts = TokenColumn.all.map {
      "(SELECT count(*) FROM \($0.table) WHERE octet_length(token) <> \(TokenSealer.sealedBytes))"
    }
    let sum = counts.joined(separator: " + ")
    let found = try await connection.perform([PostgresStep(.once("SELECT \(sum)"))])
    var row = found.cursor(row: 0)
    return Int(try row.bigint())
  }
}
