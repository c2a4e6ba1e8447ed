package import RelayCore

// Parts of the schema that our statements count on without naming them. A dump that was put back in part lacks them,
// and no statement fails: only their effect is missing.

extension PostgresStorage {
  /// - Returns: triggers and functions of today's schema that the database lacks, and triggers that are switched off.
  package func missingParts() async throws(StoreError) -> [String] {
    let result = try await read(
      "missing_parts",
      """
      SELECT 'trigger ' || name FROM unnest(\(each: Self.triggers)) AS name
      WHERE NOT EXISTS (
        SELECT FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        WHERE t.tgname = name AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
          AND c.relnamespace = current_schema()::regnamespace)
      UNION ALL
      SELECT 'function ' || name FROM unnest(\(each: Self.functions)) AS name
      WHERE NOT EXISTS (SELECT FROM pg_proc WHERE proname = name AND pronamespace = current_schema()::regnamespace)
      ORDER BY 1
      """)
    return try result.all { (row) throws(StoreError) in try row.text() }
  }

  /// The triggers of today's schema: a test compares them with a new store's.
  static let triggers = [
    "relay_account_added", "relay_account_changed", "relay_account_ended", "relay_account_removed",
    "relay_contact_changed", "relay_contacts_added", "relay_contacts_counted_less", "relay_contacts_counted_more",
    "relay_contacts_recounted",
    "relay_contacts_removed", "relay_device_gone", "relay_listed_anew", "relay_listed_first", "relay_peer_changed",
    "relay_peer_counted", "relay_peer_removed", "relay_registered", "relay_relisted",
  ]
  static let functions = [
    "relay_account_changed", "relay_account_ended", "relay_arrival_day", "relay_contact_changed",
    "relay_contacts_changed",
    "relay_contacts_counted", "relay_contacts_recounted", "relay_device_gone", "relay_listed", "relay_peer_changed",
    "relay_peer_counted", "relay_present_day", "relay_registered", "relay_relisted",
  ]
}
