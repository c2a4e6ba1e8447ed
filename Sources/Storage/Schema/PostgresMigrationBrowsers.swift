// The fourteenth step of the schema: browsers that are woken, tests that are sent to connected devices,
// and who sends through which provider (docs/waking.md).

extension PostgresMigration {
  // Builds of before go on working: they wake no browser, and send every test.
  static let browsers = [
    "ALTER TABLE devices ADD COLUMN web_push bytea",
    "ALTER TABLE wakes ADD COLUMN forced boolean NOT NULL DEFAULT false",
    // When a process last said that it sends through a provider, in milliseconds by the database's clock.
    "CREATE TABLE wake_providers (provider smallint PRIMARY KEY, announced bigint NOT NULL)",
  ]
}
