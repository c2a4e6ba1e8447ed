/// A table whose rows go from the embedded store to PostgreSQL. Tables and columns have one name in both; what differs
/// between the two schemas stands here, and a column that nobody speaks of fails the plan (`MovePlan`).
struct MovedTable: Sendable {
  let name: String
  /// Tells rows apart, and gives both stores one order.
  let key: [String]
  /// Columns that differ by more than their types.
  var special: [String: MovedColumn.Form] = [:]
  /// Columns of the target that PostgreSQL fills in.
  var filled: Set<String> = []
  /// Which rows are moved, in both stores.
  var condition: String?
  /// Rows that are held at a time.
  var pageRows = 2000

  init(
    _ name: String, by key: [String], special: [String: MovedColumn.Form] = [:], filled: Set<String> = [],
    where condition: String? = nil, pageRows: Int = 2000
  ) {
    self.name = name
    self.key = key
    self.special = special
    self.filled = filled
    self.condition = condition
    self.pageRows = pageRows
  }

  private static let device = ["account", "device"]

  /// Tables that others refer to stand before the others.
  static let all: [MovedTable] = [
    MovedTable("accounts", by: ["account"]),
    MovedTable("verification_codes", by: ["account"], filled: ["confirmed"]),
    MovedTable("linking_codes", by: ["account"], filled: ["device"]),
    MovedTable("devices", by: device),
    MovedTable("one_time_prekeys", by: device + ["key_id"]),
    MovedTable("last_resort_prekeys", by: device),
    MovedTable("messages", by: ["sequence"], pageRows: 200),
    MovedTable("acknowledged", by: device + ["fingerprint"]),
    MovedTable("banned_numbers", by: ["mark"]),
    MovedTable("unlisted_tokens", by: ["token"]),
    MovedTable("peers", by: ["name"], special: ["revoked_serials": .serials]),
    MovedTable("peer_contacts", by: ["peer", "token"]),
    MovedTable("invitations", by: ["secret_hash"]),
    MovedTable("confirmed_devices", by: ["account", "peer"], special: ["devices": .confirmedDevices]),
    MovedTable("attachments", by: ["id"], special: ["bytes": .charged]),
    MovedTable("attachment_marks", by: ["mark"]),
    MovedTable("outbox", by: ["sequence"], pageRows: 200),
    MovedTable("outbox_charges", by: ["peer"]),
    MovedTable("crossings", by: ["kind", "hour", "tag", "mark"]),
    MovedTable("loss_ledger", by: ["peer", "hour", "kind", "event"], special: ["digest": .digest]),
    MovedTable("wakes", by: device),
    MovedTable("wake_history", by: ["entry"]),
    MovedTable("wake_providers", by: ["provider"]),
    MovedTable("notification_numbers", by: ["singleton"]),
    MovedTable("notification_accounts", by: ["name"]),
    MovedTable("notification_groups", by: ["account", "name_key"]),
    MovedTable("notification_members", by: ["account", "group_key", "recipient"]),
    MovedTable("notification_recipients", by: ["number"]),
    MovedTable("notifications", by: ["number"]),
    MovedTable("notification_addressees", by: ["recipient", "number"]),
    MovedTable("notification_events", by: ["account", "number"]),
    MovedTable("notification_jobs", by: ["id"]),
    MovedTable("audit_log", by: ["id"]),
    MovedTable("store_clock", by: ["singleton"], special: ["singleton": .absent]),
    MovedTable("store_restores", by: ["kind"]),
    MovedTable("server_secrets", by: ["name"]),
    // The feed of the directory is the store's own.
    MovedTable(
      "revisions", by: ["subject"], where: "subject NOT IN ('directory-pruned', 'listing-generation')"),
    // Last: whoever looks at the epoch finds the keys that it speaks of.
    MovedTable("epochs", by: ["singleton"]),
  ]

  /// Tables of the source that stay behind: made anew from what is moved, or good for an hour.
  static let left: Set<String> = [
    "relay_schema", "sqlite_sequence", "leases", "contact_counts", "directory_changes", "oblivious_outputs",
    "oblivious_progress", "wake_sweeps",
    // The first is left by a relay that was killed while it tried to write; the others by an operator's ANALYZE.
    "relay_room", "sqlite_stat1", "sqlite_stat4",
  ]
  /// Tables of the target that are filled otherwise.
  static let made: Set<String> = [
    "relay_schema", "leases", "contact_counts", "directory_changes", "oblivious_outputs", "oblivious_progress",
    "wake_sweeps", "attachment_charges", "store_numbering",
  ]
}
