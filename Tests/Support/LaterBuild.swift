// A later build's step of the schema, run while this build serves.

import Logging
import RelayCore
import Storage

/// A build that knows one step more than this one. The step only adds: this build goes on serving.
package enum LaterBuild {
  /// Runs the step, as `relay migrate run` of that build would. Does nothing where it has run.
  /// - Parameter url: of PostgreSQL.
  package static func migrate(_ url: String) async throws {
    let storage = try PostgresStorage(
      url: url, steps: SchemaStep.postgres + [step],
      logger: Logger(label: "later build") { _ in SwiftLogNoOpLogHandler() })
    do {
      try await storage.migrate { _ in }
    } catch {
      await storage.close()
      throw error
    }
    await storage.close()
  }

  /// It locks the tables that every message and every registration needs, all partitions of messages with them.
  private static let step = SchemaStep(
    version: SchemaStep.postgres.count + 1, name: "words of a later build", usableFrom: SchemaStep.postgres.count,
    statements: [
      "ALTER TABLE accounts ADD COLUMN later_word text",
      "ALTER TABLE devices ADD COLUMN later_word text",
      "ALTER TABLE messages ADD COLUMN later_word text",
      "ALTER TABLE peers ADD COLUMN later_word text",
      "CREATE INDEX accounts_by_later_word ON accounts (later_word) WHERE later_word IS NOT NULL",
      "CREATE TABLE later_words (account bigint NOT NULL, word text NOT NULL, PRIMARY KEY (account))",
    ])
}
