import ArgumentParser
import RelayConfiguration
import RelayCore
import RelayWork
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
        try await setAside(storage, epoch)
        if json { return try Output.json(Result(epoch: epoch)) }
        Output.line("All one-time prekeys are set aside: last resorts serve until clients refill.")
      }
    }

    /// Draws are waited for again and again, and whoever reads the keys for longer is named.
    private func setAside(_ storage: any Storage, _ epoch: Int64) async throws {
      let deadline = ContinuousClock.now + .seconds(60)
      var wasTold = false
      while true {
        do throws(StoreError) {
          return try await storage.setAsideOneTimePreKeys(epoch: epoch, by: .command, behind: .zero)
        } catch {
          guard case .unavailable(let reason) = error else { throw error }
          guard .now < deadline else {
            throw CommandFailure(
              "The prekeys could not be set aside for a minute (\(reason)). With SQLSTATE 55P03 another session holds them, "
                + "such as pg_dump: end it. Run this command again: until then prekeys may be handed out a second time."
            )
          }
          if !wasTold { Output.note("Not yet (\(reason)). Trying again for a minute.") }
          wasTold = true
          await Pause.for(.seconds(1))
        }
      }
    }

    private struct Result: Encodable {
      /// The epoch of the store, from now on.
      let epoch: Int64
    }
  }
}
