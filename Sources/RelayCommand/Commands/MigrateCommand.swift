import ArgumentParser
import RelayConfiguration
import RelayCore

struct MigrateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate", abstract: "Bring the store's schema up to date.",
    subcommands: [Plan.self, Run.self, Status.self])

  struct Plan: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "plan",
      abstract: "Show the steps that have not run, and whether there is a way back behind them.",
      discussion: """
        Steps are not taken back, but most leave the store as former builds know it, too: those go on serving, and can be \
        put back. Changes nothing.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withStorage(configuration, .asItIs) { storage in
        let all = try await storage.migrations()
        try MigrateCommand.show(
          all.filter { $0.applied == nil }, json: json, empty: "Nothing to do: the schema is up to date.")
        let words = SchemaReturn(all).words
        // A program finds `usableFrom` in the JSON.
        if json { Output.note(words) } else { Output.line(words) }
      }
    }
  }

  struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "run",
      abstract: "Run the pending steps.",
      discussion: "Steps only go forward, each in a transaction of its own; relays may keep running meanwhile.")
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: ArgumentHelp("Run none behind this step; `relay migrate plan` numbers them.", valueName: "step"))
    var to: Int?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      try await withStorage(settings, .asItIs) { storage in
        switch try await storage.compatibility() {
        case .tooNew: throw CommandFailure("The schema is newer than this relay knows: run a newer relay.")
        case .movingIn: throw CommandFailure(SchemaCompatibility.movingInRemedy)
        case .moved: throw CommandFailure(SchemaCompatibility.movedRemedy)
        case .distributing: throw CommandFailure(SchemaCompatibility.distributingRemedy)
        case .usable, .tooOld: break
        }
        let all = try await storage.migrations()
        if let to, !all.contains(where: { $0.version == to }) {
          throw CommandFailure("There is no step \(to): `relay migrate status` shows all.")
        }
        // Sealed at once, or only by `relay storage seal-contacts`.
        if to != nil, settings.storage.encryptionKey != nil, all.allSatisfy({ $0.applied == nil }) {
          throw CommandFailure("A new store that has storage.encryption-key takes all steps at once: leave out --to.")
        }
        let before = all.filter { $0.applied == nil }.map(\.version)
        try await storage.migrate(to: to) { step in Output.note("applied \(step.version) \(step.name)") }
        let done = try await storage.migrations().filter { before.contains($0.version) }
        try MigrateCommand.show(
          done.filter { $0.applied != nil }, json: json,
          empty: "Nothing to do: the schema is up to \(to.map { "step \($0)" } ?? "date").")
      }
    }
  }

  struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "status",
      abstract: "Show every step and whether it has run.", discussion: "Exits with 1 when a step is pending.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withStorage(configuration, .asItIs) { storage in
        let all = try await storage.migrations()
        try MigrateCommand.show(all, json: json, empty: "There are no steps.")
        if all.contains(where: { $0.applied == nil }) { throw ExitCode.failure }
      }
    }
  }

  private struct Step: Encodable {
    let version: Int
    let name: String
    let applied: String?
    /// A build must know this step to work behind this one.
    let usableFrom: Int
  }

  private static func show(_ steps: [MigrationStatus], json: Bool, empty: String) throws {
    let rows = steps.map {
      Step(version: $0.version, name: $0.name, applied: $0.applied?.iso8601, usableFrom: $0.usableFrom)
    }
    if json { return try Output.json(rows) }
    if rows.isEmpty { return Output.line(empty) }
    Output.table(rows.map { [String($0.version), $0.name, $0.applied ?? "pending"] })
  }
}

extension Storage {
  var isTooNew: Bool {
    get async {
      switch try? await compatibility() {
      case .tooNew, .moved, .movingIn, .distributing: true
      case .usable, .tooOld, nil: false
      }
    }
  }
}
