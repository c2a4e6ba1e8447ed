import RelayCore

// The steps of both schemas, and how a store that has been through some of them stands to a build.

extension SchemaStep {
  package static let postgres = [
    SchemaStep(
      version: 1, name: "the first schema", usableFrom: 1,
      statements: CommonSchema.postgres + AccountSchema.postgres + PreKeySchema.postgres + MessageSchema.postgres
        + AttachmentSchema.postgres + EpochSchema.postgres + SecretSchema.postgres + PeerSchema.postgres
        + OutboxSchema.postgres + LedgerSchema.postgres + WakeSchema.postgres + NotificationSchema.postgres
        + AuditSchema.postgres + DirectorySchema.postgres + DirectoryTriggers.postgres + PostgresNumbering.schema)
  ]

  package static let embedded = [
    SchemaStep(
      version: 1, name: "the first schema", usableFrom: 1,
      statements: [
        CommonSchema.embedded, AccountSchema.embedded, PreKeySchema.embedded, MessageSchema.embedded,
        AttachmentSchema.embedded, EpochSchema.embedded, SecretSchema.embedded, PeerSchema.embedded,
        OutboxSchema.embedded, LedgerSchema.embedded, WakeSchema.embedded, NotificationSchema.embedded,
        AuditSchema.embedded, DirectorySchema.embedded, DirectoryTriggers.embedded,
      ])
  ]
}

extension [SchemaStep] {
  /// The newest step that a build with these steps knows.
  var newest: Int { last?.version ?? 0 }

  /// Steps of this build, then those that a newer one has run.
  func statuses(_ applied: [AppliedStep]) -> [MigrationStatus] {
    map { step in
      let done = applied.first { $0.version == step.version }
      return MigrationStatus(
        version: step.version, name: step.name, applied: done?.at, usableFrom: done?.usableFrom ?? step.usableFrom)
    } + applied.filter { $0.version > newest }.map(\.status)
  }

  /// - Parameter marks: of a store that is not to be served, and how that is said.
  func compatibility(
    _ applied: [AppliedStep], _ marks: KeyValuePairs<SchemaMark, SchemaCompatibility>
  ) -> SchemaCompatibility {
    for (mark, marked) in marks where applied.contains(where: { $0.version == mark.rawValue }) { return marked }
    let version = applied.map(\.version).max() ?? 0
    guard version >= SchemaStep.needed else { return .tooOld(version: version, needed: SchemaStep.needed) }
    guard applied.allSatisfy({ $0.usableFrom <= newest }) else {
      return .tooNew(version: version, newestKnown: newest)
    }
    return .usable(version: version)
  }

  /// Steps that have not run, up to `version`.
  func pending(_ applied: [AppliedStep], to version: Int?) -> [SchemaStep] {
    filter { step in step.version <= version ?? .max && !applied.contains { $0.version == step.version } }
  }
}

/// A mark in the list of a store's steps: the store is not to be served. No step will have these numbers, so that
/// former builds refuse the store too.
enum SchemaMark: Int, CaseIterable, Sendable {
  /// A store is being moved into this one.
  case moving = 1_000_001
  /// The store was moved to another.
  case moved = 1_000_002
  /// Some of the store's tables are distributed, and others are not yet.
  case distributing = 1_000_003

  var name: String {
    switch self {
    case .moving: "a store is being moved into this one"
    case .moved: "the store was moved to another"
    case .distributing: "the store is being distributed"
    }
  }
}
