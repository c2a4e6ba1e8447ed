// Draws in a distributed store: devices and the epoch lie at the coordinator, the keys of each account at one worker.

import RelayCore

extension PostgresStorage {
  /// As `drawStep`, in one transaction of several steps. A step for a worker names no table of the coordinator, so
  /// Citus sends it there as a whole. A result that travels between parts of a step would cost as much as the draw
  /// itself.
  ///
  /// Each step sees what is committed by then. So the devices are read ahead and again at the end: keys of an
  /// installation that came between them do not go with the identity key of the former one.
  static func distributedSupply(
    of devices: [WantedPreKeys], epoch: Int64, over connection: PostgresConnection
  ) async throws(PostgresError) -> PreKeySupply {
    let isAnyOneTime = devices.contains { $0.oneTime > 0 }
    do throws(PostgresError) {
      return try await distributedSupply(of: devices, behind: isAnyOneTime ? [epochStep(epoch)] : [], over: connection)
    } catch {
      guard isAnyOneTime, case .refused(.divisionByZero, _) = error else { throw error }
      let lasting = devices.map { WantedPreKeys(address: $0.address, oneTime: 0) }
      return try await distributedSupply(of: lasting, behind: [], over: connection)
    }
  }

  private static func distributedSupply(
    of devices: [WantedPreKeys], behind condition: [PostgresStep], over connection: PostgresConnection
  ) async throws(PostgresError) -> PreKeySupply {
    let parts = PostgresLayout.distributed.parts(devices, of: \.address.account)
    let shown = drawnDevicesStep(devices)
    let results = try await connection.sharedWrites(condition + [shown] + parts.map(accountDrawStep) + [shown])
      .dropFirst(condition.count)
    guard results.count > 1, let before = results.first, let after = results.last else {
      throw .notServed(reason: "PostgreSQL gave no result")
    }
    return PreKeySupply(devices: before, keys: results.dropFirst().dropLast(), devicesAfter: after)
  }

  /// Undoes its transaction (SQLSTATE 22012) if the store has not reached `epoch`.
  private static func epochStep(_ epoch: Int64) -> PostgresStep {
    PostgresStep("draw_epoch", "SELECT 1 / coalesce((SELECT value >= \(epoch) FROM epochs), false)::integer")
  }

  static func drawnDevicesStep(_ devices: [WantedPreKeys]) -> PostgresStep {
    PostgresStep(
      "draw_devices",
      """
      SELECT w.account, w.device, d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey,
        d.signed_prekey_signature
      FROM unnest(\(each: devices.lazy.map(\.address.account)), \(each: devices.lazy.map(\.address.device)))
        AS w (account, device)
      JOIN devices AS d ON d.account = w.account AND d.device = w.device
      JOIN accounts AS a ON a.account = d.account
      WHERE a.identity_key IS NOT NULL
      """)
  }

  /// The keys of one account's devices. `picked` locks, and `drawn` deletes what it locked.
  private static func accountDrawStep(_ devices: [WantedPreKeys]) -> PostgresStep {
    let account = PostgresParameter(devices.first?.address.account)
    let ids = PostgresParameter(each: devices.lazy.map(\.address.device))
    return PostgresStep(
      "draw_prekeys",
      """
      WITH picked AS MATERIALIZED (
          SELECT k.device, k.key_id
          FROM unnest(\(ids), \(each: devices.lazy.map(\.oneTime))) AS w (device, one_time)
          CROSS JOIN LATERAL (
            SELECT device, key_id FROM one_time_prekeys WHERE account = \(account) AND device = w.device
            ORDER BY key_id LIMIT w.one_time FOR UPDATE SKIP LOCKED
          ) AS k
          WHERE w.one_time > 0
        ),
        drawn AS (
          DELETE FROM one_time_prekeys AS k USING picked AS p
          WHERE k.account = \(account) AND k.device = p.device AND k.key_id = p.key_id
          RETURNING k.account, k.device, k.key_id, k.public_key
        )
      SELECT account, device, key_id, public_key, false FROM drawn
      UNION ALL
      SELECT account, device, key_id, public_key, true FROM last_resort_prekeys
      WHERE account = \(account) AND device = ANY (\(ids))
      """)
  }
}
