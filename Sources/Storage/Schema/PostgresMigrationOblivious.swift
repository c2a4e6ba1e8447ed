// The fifth step of the schema: the outputs by which contacts are found without being named (docs/directory.md,
// "Oblivious look-up").

extension PostgresMigration {
  // Builds of the fourth step go on working: they know nothing of these tables, and the feed tells what they change.
  // `output` is 8 bytes, and `key` a number for the key that it was made under.
  static let obliviousOutputs = [
    """
    CREATE TABLE oblivious_outputs (
      token bytea NOT NULL,
      key bigint NOT NULL,
      output bytea NOT NULL,
      PRIMARY KEY (token)
    )
    """,
    "CREATE INDEX oblivious_outputs_by_output ON oblivious_outputs (key, output)",
    // No row before the first writing. `generation`, `revision` and `position` are a place in the directory's feed, and
    // `followed` when it was last read to its end, in milliseconds.
    """
    CREATE TABLE oblivious_progress (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      key bigint NOT NULL,
      generation bigint NOT NULL,
      revision bigint NOT NULL,
      position bigint NOT NULL,
      ranges_done integer NOT NULL,
      swept boolean NOT NULL,
      followed bigint NOT NULL,
      step bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
  ]
}
