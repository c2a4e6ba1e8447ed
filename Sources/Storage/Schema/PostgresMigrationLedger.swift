// The thirteenth step of the schema: what was handed over to peers, and the loss ledger (docs/federation.md, "Receipts" and
// "The loss ledger").

extension PostgresMigration {
  // Builds of before go on working: what they hand over and accept is not counted, and they take every receipt. Hours are
  // counted from 1970.
  static let lossLedger = [
    // What leaves us: by it each crossing is counted once for what becomes of it, and a receipt finds the message that it is
    // for. Kind and hour first: what is written lies together, and what has ended is removed together. `tag` is 0 where there
    // is none. Most rows are never changed, the others once.
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
    // Connections that write at once rarely have a slot in common. The marks' halves are summed apart: neither sum overflows
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
}
