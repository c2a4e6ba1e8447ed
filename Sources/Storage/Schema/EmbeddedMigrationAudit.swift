// The seventeenth step of the embedded schema: the audit log, and what is said of suspended peers.

extension EmbeddedMigration {
  // `outcome` is 0 until the deed has ended, then 1 for done or 2 for failed, with its reason.
  static let auditLog = """
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

    ALTER TABLE peers ADD COLUMN suspension_reason TEXT;
    ALTER TABLE peers ADD COLUMN suspended_until INTEGER;
    """
}
