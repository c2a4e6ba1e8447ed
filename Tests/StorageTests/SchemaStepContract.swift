// The schema has one step until the first release. The mechanism of steps is shown with a second one.

import Foundation
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Opens the stores of several builds on one database.
private struct Builds {
  let open: @Sendable (_ steps: [SchemaStep]) async throws -> any Storage

  /// The build of today.
  let today: [SchemaStep]

  /// - Parameter usableFrom: of the step that it has beyond today's.
  func next(usableFrom: Int) -> [SchemaStep] {
    today + [
      SchemaStep(
        version: 2, name: "a word of accounts", usableFrom: usableFrom,
        statements: ["ALTER TABLE accounts ADD COLUMN word text"])
    ]
  }

  func with<Value>(_ steps: [SchemaStep], _ body: (any Storage) async throws -> Value) async throws -> Value {
    let storage = try await open(steps)
    do {
      let value = try await body(storage)
      await storage.close()
      return value
    } catch {
      await storage.close()
      throw error
    }
  }
}

@Suite(.tags(.stores)) struct SchemaStepContract {
  private static func withBuilds(_ backend: Backend, _ body: (Builds) async throws -> Void) async throws {
    switch backend {
    case .embedded:
      try await withTemporaryFolder { folder in
        let builds = Builds(
          open: { steps in
            try SQLiteStorage(path: folder + "/relay.sqlite", steps: steps, clock: ManualClock(Sample.noon).wall)
          }, today: SchemaStep.embedded)
        try await body(builds)
      }
    case .postgres:
      try await withPostgres(migrated: false) { _, _, url in try await body(builds(on: url)) }
    case .distributed:
      try await withDistributedDatabase { url in
        try await distribute(url)
        try await body(builds(on: url))
      }
    }
  }

  private static func builds(on url: String) -> Builds {
    Builds(
      open: { steps in
        let storage = try PostgresStorage(url: url, steps: steps, logger: Logger(label: "test"))
        try await storage.ping()
        return storage
      }, today: SchemaStep.postgres)
  }

  @Test(arguments: Backend.allCases)
  func `a step that adds runs beside builds that do not know it`(_ backend: Backend) async throws {
    try await Self.withBuilds(backend) { builds in
      let next = builds.next(usableFrom: 1)
      try await builds.with(builds.today) { former in
        try await former.migrate { _ in }
        let clock = ManualClock(Sample.noon)
        try await Store(storage: former, clock: clock).register(Sample.registration(1))
        try await builds.with(next) { later in
          // The later build does without each part that it can do without.
          #expect(try await later.compatibility() == .usable(version: 1))
          let reported = Collected<MigrationStatus>()
          for _ in 0..<2 { try await later.migrate { reported.add($0) } }
          #expect(reported.values.map(\.version) == [2])
          #expect(try await later.compatibility() == .usable(version: 2))
          #expect(try await later.migrations() == former.migrations())
        }
        #expect(try await former.compatibility() == .usable(version: 2))
        try await Store(storage: former, clock: clock).register(Sample.registration(2))
        #expect(try await former.accountCount() == 2)
        try await former.migrate { _ in Issue.record("a step ran again") }
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a step that takes away keeps former builds from the store`(_ backend: Backend) async throws {
    try await Self.withBuilds(backend) { builds in
      let next = builds.next(usableFrom: 2)
      try await builds.with(next) { later in
        // A store is distributed with its first step.
        let before: SchemaCompatibility =
          backend == .distributed ? .usable(version: 1) : .tooOld(version: 0, needed: SchemaStep.needed)
        #expect(try await later.compatibility() == before)
        try await later.migrate { _ in }
        #expect(try await later.compatibility() == .usable(version: 2))
      }
      try await builds.with(builds.today) { former in
        let compatibility = try await former.compatibility()
        #expect(compatibility == .tooNew(version: 2, newestKnown: 1))
        #expect(try await former.migrations().map(\.name) == next.map(\.name))
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a step that fails leaves nothing behind, and runs once it can`(_ backend: Backend) async throws {
    try await Self.withBuilds(backend) { builds in
      try await builds.with(builds.today) { try await $0.migrate { _ in } }
      let broken =
        builds.today + [
          SchemaStep(
            version: 2, name: "breaks", usableFrom: 1,
            statements: ["ALTER TABLE accounts ADD COLUMN word text", "ALTER TABLE absent ADD COLUMN word text"])
        ]
      try await builds.with(broken) { later in
        await #expect(throws: StoreError.self) { try await later.migrate { _ in } }
        let compatibility = try await later.compatibility()
        #expect(compatibility == .usable(version: 1))
      }
      try await builds.with(builds.next(usableFrom: 1)) { later in
        try await later.migrate { _ in }
        #expect(try await later.compatibility() == .usable(version: 2))
      }
    }
  }
}
