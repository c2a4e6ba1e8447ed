// The tables of attachments.

/// An attachment is asked for by its id alone, and outlives a new installation of its account. `bytes` is NULL until
/// the upload is complete.
enum AttachmentSchema {
  static let postgres = [
    // `charge` is what the row counts among its account's.
    """
    CREATE TABLE attachments (
      id bigint NOT NULL,
      account bigint NOT NULL,
      bytes bigint,
      charge bigint NOT NULL,
      expires bigint NOT NULL,
      PRIMARY KEY (id)
    )
    """,
    "CREATE INDEX attachments_by_expiry ON attachments (expires)",
    // An account that is deleted looks for its own.
    "CREATE INDEX attachments_by_account ON attachments (account)",
    // The sum of an account's charges: a quota is compared with one row, however many attachments there are.
    """
    CREATE TABLE attachment_charges (
      account bigint NOT NULL,
      total bigint NOT NULL,
      PRIMARY KEY (account)
    )
    """,
  ]

  static let embedded = """
    CREATE TABLE attachments (
      id INTEGER PRIMARY KEY,
      account INTEGER NOT NULL,
      bytes INTEGER,
      expires INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX attachments_by_account ON attachments (account, bytes);
    CREATE INDEX attachments_by_expiry ON attachments (expires);
    """
}
