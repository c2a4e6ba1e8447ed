// How contact tokens lie in the database: each statement with tokens asks this first (`TokenSealer`).

package import RelayCore

extension PostgresStorage {
  /// - Throws: `.unavailable` while they are being sealed; `.corrupted` where the key does not open.
  func tokens() async throws(StoreError) -> TokenSealer {
    if let known = knownTokens.value { return known }
    return knownTokens.remember(try await tokenState().tokens(sealer))
  }

  package func contactSealing() async throws(StoreError) -> ContactSealing {
    try await tokenState().sealing(sealer)
  }

  package func directoryFileKey() async throws(StoreError) -> SecretBytes? { try await tokens().fileKey }

  private func tokenState() async throws(StoreError) -> TokenState {
    try TokenState(in: await read([TokenState.step])[0])
  }
}

extension TokenState {
  static let step = PostgresStep(
    "token_state", "SELECT name, secret FROM server_secrets WHERE name = ANY (\(each: names))")
  static let names = [keyName, progressName]

  /// - Parameter result: of `step`.
  init(in result: PostgresResult) throws(StoreError) {
    self.init()
    for index in result.rows {
      var row = result.cursor(row: index)
      switch try row.text() {
      case Self.keyName: sealedKey = try row.bytes()
      default: isUnderWay = true
      }
    }
  }
}

// MARK: - Sealed from the beginning

extension PostgresStorage {
  /// The steps that seal a new store, behind all others in the transaction that makes it: nothing ever lies in it as
  /// it is.
  /// - Returns: nothing where there is no encryption key.
  func sealingOfNewStore() throws(StoreError) -> [PostgresStep] {
    guard let key = try TokenState.newKey(sealer) else { return [] }
    return Self.tokenChecks + [
      PostgresStep(once: "INSERT INTO server_secrets (name, secret) VALUES (\(TokenState.keyName), \(key))")
    ]
  }

  /// From then on the tables take sealed tokens alone: a process that did not hear of it is refused, and damages
  /// nothing.
  static let tokenChecks = TokenColumn.all.map { column in
    PostgresStep(
      .once(
        """
        ALTER TABLE \(column.table) ADD CONSTRAINT \(column.table)_sealed
          CHECK (octet_length(token) = \(TokenSealer.sealedBytes))
        """))
  }
}

extension PostgresConnection {
  /// Runs `steps` as one transaction. - Returns: the last one's result.
  @discardableResult
  func perform(_ steps: [PostgresStep]) async throws(StoreError) -> PostgresResult {
    let results: [PostgresResult]
    do throws(PostgresError) { results = try await transaction(steps) } catch { throw error.storeError }
    guard let last = results.last else { throw .unavailable(reason: "PostgreSQL gave no result") }
    return last
  }
}
