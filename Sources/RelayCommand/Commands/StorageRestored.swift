import ArgumentParser
import RelayConfiguration
import RelayCore
import Storage

extension StorageCommand {
  /// The operator's word for what witnesses could not tell (docs/decisions/2026-11-21-restored-stores.md).
  struct Restored: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "restored",
      abstract: "Say that the store was put back to an older state.",
      discussion: """
        Sets all one-time prekeys aside, since some of them may have been handed out after the backup was made: last \
        resorts serve until clients refill, by themselves. Run it behind a restore that the relay did not recognise by \
        itself: when Redis was lost as well, and fewer than two peers remember. Relays may be running. Said without need, \
        it costs clients a refill and nothing else.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withStorage(configuration, .existing, noting: AuditNote("storage restored")) { storage in
        let before = try await storage.epoch()
        let epoch = max(before, Timestamp.now.millis) + 1
        try await storage.setAsideOneTimePreKeys(epoch: epoch, by: .command, behind: .zero)
        if json { return try Output.json(Result(epoch: epoch)) }
        Output.line("All one-time prekeys are set aside: last resorts serve until clients refill.")
      }
    }

    private struct Result: Encodable {
      /// The epoch of the store, from now on.
      let epoch: Int64
    }
  }
}
