// The fifth step of the embedded schema: the outputs by which contacts are found without being named (docs/directory.md,
// "Oblivious look-up").

extension EmbeddedMigration {
  // `output` is 8 bytes, and `key` a number for the key that it was made under. Of `oblivious_progress` there is no row
  // before the first writing; `followed` is when the feed was last read to its end, in milliseconds.
  static let obliviousOutputs = """
    CREATE TABLE oblivious_outputs (
      token BLOB PRIMARY KEY,
      key INTEGER NOT NULL,
      output BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX oblivious_outputs_by_output ON oblivious_outputs (key, output);

    CREATE TABLE oblivious_progress (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      key INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      revision INTEGER NOT NULL,
      position INTEGER NOT NULL,
      ranges_done INTEGER NOT NULL,
      swept INTEGER NOT NULL,
      followed INTEGER NOT NULL,
      step INTEGER NOT NULL
    ) STRICT;
    """
}
