// The tenth step of the schema: which seconds number tokens may bear (docs/protocol.md, "Accounts").

extension PostgresMigration {
  // A token holds while its second is above the floor. `number_token_drawn` is the newest that was drawn.
  static let numberTokens = [
    """
    ALTER TABLE accounts ADD COLUMN number_token_floor bigint NOT NULL DEFAULT 0,
      ADD COLUMN number_token_drawn bigint NOT NULL DEFAULT 0
    """
  ]
}
