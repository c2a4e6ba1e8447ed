// The thirteenth step of the embedded schema: what was handed over to peers, and the loss ledger (docs/federation.md,
// "Receipts" and "The loss ledger").

extension EmbeddedMigration {
  // By `crossings` each one that leaves us is counted once for what becomes of it, and a receipt finds the message that it is
  // for; `tag` is 0 where there is none, `noted` a day. Hours and days are counted from 1970.
  static let lossLedger = """
    CREATE TABLE crossings (
      kind INTEGER NOT NULL,
      hour INTEGER NOT NULL,
      tag INTEGER NOT NULL,
      mark INTEGER NOT NULL,
      noted INTEGER NOT NULL,
      settled INTEGER NOT NULL,
      PRIMARY KEY (kind, hour, tag, mark)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE loss_ledger (
      peer TEXT NOT NULL,
      hour INTEGER NOT NULL,
      kind INTEGER NOT NULL,
      event INTEGER NOT NULL,
      crossings INTEGER NOT NULL,
      digest INTEGER NOT NULL,
      PRIMARY KEY (peer, hour, kind, event)
    ) STRICT, WITHOUT ROWID;
    """
}
