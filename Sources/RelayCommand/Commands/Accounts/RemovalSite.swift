import AsyncHTTPClient
import Attachments
import Glibc
import Logging
import Operations
import Relay
import RelayConfiguration
import RelayCore
import RelayWork

/// The store, the blobs, and the signals by which processes hear that an account is deleted.
struct RemovalSite {
  private let settings: RelayConfiguration

  /// - Parameter question: asked where somebody sits at the terminal; nil asks nobody.
  init(_ option: ConfigurationOption, question: String?) throws {
    settings = try option.load().configuration
    LogOutput.bootstrap(settings.log)
    guard let question, isatty(STDIN_FILENO) == 1 else { return }
    Output.note("\(question) [y/N]")
    guard readLine()?.lowercased().hasPrefix("y") == true else { throw CommandFailure("Nothing was done.") }
  }

  /// The outcome: no rows where there was no account.
  struct Removal {
    let number: AccountNumber
    let handle: AccountHandle
    let rows: RemovalRow?
  }

  /// - Parameters:
  ///   - action: the words of the command.
  ///   - noting: is called as soon as the account is deleted, before anything else can fail.
  /// - Throws: `CommandFailure` where there is no account, and no ban.
  func remove(
    _ reference: AccountReference, isBanned: Bool, by action: String, noting: (Removal) throws -> Void
  ) async throws -> Removal {
    var outcome: Removal?
    try await HTTPClient.withHTTPClient { client in
      try await withStorage(settings) { storage in
        let number = try await reference.number(of: storage)
        let blobs = try await openBlobs(
          settings.attachments, present: { [settings] in settings.attachments }, storage: storage, client: client)
        let remover = AccountRemover(store: storage, attachments: AccountAttachments(store: storage, blobs: blobs))
        let handle = try await storage.handle(of: number)
        let rows = try await storage.noting(AuditNote(action, on: .account(number))) {
          try await Self.rows(of: number, isBanned: isBanned, remover)
        }
        let removal = Removal(number: number, handle: handle, rows: rows)
        outcome = removal
        let noted = Result { try noting(removal) }
        if rows != nil { await tell(of: number) }
        try noted.get()
      }
    }
    guard let outcome else { throw CommandFailure.noAccount }
    return outcome
  }

  private static func rows(
    of number: AccountNumber, isBanned: Bool, _ remover: AccountRemover
  ) async throws -> RemovalRow? {
    let removal: AccountRemoval?
    do throws(Problem) {
      removal = try await remover.remove(number, of: nil, isBanned: isBanned)
    } catch {
      throw CommandFailure(
        "It was broken off (\(error.reason ?? error.text)). Run the command again: it goes on where it ended.")
    }
    guard removal != nil || isBanned else { throw CommandFailure.noAccount }
    return removal.map(RemovalRow.init)
  }

  /// Processes forget the account at once where they share a Redis, and within a minute otherwise.
  private func tell(of number: AccountNumber) async {
    let coordination: any Coordination
    do {
      coordination = try openCoordination(settings, logger: Logger(label: "relay.coordination"))
    } catch {
      return Output.note("Processes notice within a minute: \(error)")
    }
    let isThere = await Pause.poll(every: .milliseconds(20), until: .now + Self.patience) {
      await coordination.degradation() == nil
    }
    if !isThere {
      Output.note("Redis does not answer: processes notice within a minute.")
    }
    await coordination.publish(.accountChanged(number))
    await coordination.close()
  }

  private static let patience = Duration.seconds(5)
}
