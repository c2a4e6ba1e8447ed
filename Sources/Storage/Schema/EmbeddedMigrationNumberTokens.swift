// The tenth step of the embedded schema: which seconds number tokens may bear (docs/protocol.md, "Accounts").

extension EmbeddedMigration {
  // A token holds while its second is above the floor. `number_token_drawn` is the newest that was drawn.
  static let numberTokens = """
    ALTER TABLE accounts ADD COLUMN number_token_floor INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE accounts ADD COLUMN number_token_drawn INTEGER NOT NULL DEFAULT 0;
    """
}
