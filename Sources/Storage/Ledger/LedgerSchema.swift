// The tables of crossings and of the loss ledger (docs/federation.md, "Receipts" and "The loss ledger").

/// Hours are counted from 1970, and so are days in SQLite. A row of `crossings` is a crossing that leaves us: by it
/// each one is counted once for what becomes of it, and a receipt finds the message that it is for. `tag` is 0 where
/// there is none.
enum LedgerSchema {
  static let postgres = [
    // Kind and hour come first: what is written lies together, and what has ended is removed together. Most rows never
    // change.
    """
    CREATE TABLE crossings (
      kind smallint NOT NULL,
      hour integer NOT NULL,
      tag bigint NOT NULL,
      mark bigint NOT NULL,
      noted date NOT NULL,
      settled boolean NOT NULL,
      PRIMARY KEY (kind, hour, tag, mark)
    ) WITH (fillfactor = 90)
    """,
    // Connections that write at once rarely share a slot. The marks' halves are summed apart: neither sum overflows
    // before there are two thousand million of them.
    """
    CREATE TABLE loss_ledger (
      peer text COLLATE "C" NOT NULL,
      hour integer NOT NULL,
      kind smallint NOT NULL,
      event smallint NOT NULL,
      slot smallint NOT NULL,
      crossings bigint NOT NULL,
      low bigint NOT NULL,
      high bigint NOT NULL,
      PRIMARY KEY (peer, hour, kind, event, slot)
    ) WITH (fillfactor = 50)
    """,
  ]

  static let embedded = """
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
