// The fourteenth step of the embedded schema: browsers that are woken, tests that are sent to connected devices,
// and which providers this relay sends through (docs/waking.md).

extension EmbeddedMigration {
  static let browsers = """
    ALTER TABLE devices ADD COLUMN web_push BLOB;
    ALTER TABLE wakes ADD COLUMN forced INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE wake_providers (provider INTEGER PRIMARY KEY, announced INTEGER NOT NULL);
    """
}
