// The seventeenth step of the schema: the audit log, and what is said of suspended peers.

extension PostgresMigration {
  // Builds of before go on working: they note nothing, and resume no peer by themselves.
  static let auditLog = [
    // `outcome` is 0 until the deed has ended, then 1 for done or 2 for failed, with its reason.
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
    "ALTER TABLE peers ADD COLUMN suspension_reason text, ADD COLUMN suspended_until bigint",
  ]
}
