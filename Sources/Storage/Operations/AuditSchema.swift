// The table of the audit log.

/// `outcome` is 0 until the deed has ended, then 1 for done or 2 for failed, with its reason.
enum AuditSchema {
  static let postgres = [
    """
    CREATE TABLE audit_log (
      id bigint GENERATED ALWAYS AS IDENTITY,
      time bigint NOT NULL,
      actor text NOT NULL,
      action text NOT NULL,
      subject text COLLATE "C",
      outcome smallint NOT NULL DEFAULT 0,
      reason text,
      PRIMARY KEY (id)
    )
    """,
    "CREATE INDEX audit_log_by_subject ON audit_log (subject, id) WHERE subject IS NOT NULL",
    "CREATE INDEX audit_log_by_time ON audit_log (time)",
  ]

  static let embedded = """
    CREATE TABLE audit_log (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      time INTEGER NOT NULL,
      actor TEXT NOT NULL,
      action TEXT NOT NULL,
      subject TEXT,
      outcome INTEGER NOT NULL DEFAULT 0,
      reason TEXT
    ) STRICT;
    CREATE INDEX audit_log_by_subject ON audit_log (subject, id) WHERE subject IS NOT NULL;
    CREATE INDEX audit_log_by_time ON audit_log (time);
    """
}
