import AsyncHTTPClient
import Attachments
import Foundation
import Glibc
import Logging
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP

/// The store, the blobs, and the signals by which processes hear that an account is deleted.
struct RemovalSite {
  private let settings: RelayConfiguration

  /// - Parameter question: asked where somebody sits at the terminal; nil asks nobody.
  init(_ option: ConfigurationOption, question: String?) async throws {
    settings = try option.load().configuration
    LogOutput.bootstrap(settings.log)
    guard let question, isatty(STDIN_FILENO) == 1 else { return }
    Output.note("\(question) [y/N]")
    guard readLine()?.lowercased().hasPrefix("y") == true else { throw CommandFailure("Nothing was done.") }
  }

  /// - Returns: nil where there was no account.
  func remove(_ number: AccountNumber, isBanned: Bool) async throws -> (rows: AccountRemoval, attachments: Int)? {
    var outcome: (rows: AccountRemoval, attachments: Int)?
    try await HTTPClient.withHTTPClient { client in
      try await withStorage(settings) { storage in
        let blobs = try await openBlobs(
          settings.attachments, present: { [settings] in settings.attachments }, storage: storage, client: client)
        let remover = AccountRemover(store: storage, attachments: AccountAttachments(store: storage, blobs: blobs))
        do throws(Problem) {
          outcome = try await remover.remove(number, isBanned: isBanned)
        } catch {
          throw CommandFailure(
            "It was broken off (\(error.reason ?? error.text)). Run the command again: it goes on where it ended.")
        }
      }
    }
    if outcome != nil { try await tell(of: number) }
    return outcome
  }

  /// Processes forget the account at once where they share a Redis, and within a minute otherwise.
  private func tell(of number: AccountNumber) async throws {
    let coordination = try openCoordination(settings, logger: Logger(label: "relay.coordination"))
    let deadline = ContinuousClock.now + Self.patience
    while await coordination.degradation() != nil, .now < deadline { try await Task.sleep(for: .milliseconds(20)) }
    if await coordination.degradation() != nil {
      Output.note("Redis does not answer: processes notice within a minute.")
    }
    await coordination.publish(.accountChanged(number))
    await coordination.close()
  }

  private static let patience = Duration.seconds(5)
}

/// A receipt for whoever demanded the deletion. Nobody but its owner may read the file: it names the number.
struct ReceiptFile {
  private let path: String
  private let handle: FileHandle

  /// Made before anything is deleted, so that nothing is deleted without its receipt.
  /// - Throws: `CommandFailure` where it cannot be made, or is there already.
  init(_ path: String) throws {
    let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      let reason = errno == EEXIST ? "it is there already" : String(cString: strerror(errno))
      throw CommandFailure("The receipt \(path) cannot be written: \(reason). Nothing was deleted.")
    }
    self.path = path
    handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
  }

  private struct Receipt: Encodable {
    let number: String
    let time: String
    let deleted: RemovalRow?
    let kept: [String]
  }

  /// - Parameter deleted: nil where there was no account.
  func write(_ number: AccountNumber, _ deleted: RemovalRow?) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let receipt = Receipt(number: number.e164, time: Timestamp.now.iso8601, deleted: deleted, kept: Self.kept)
    do {
      try handle.write(contentsOf: try encoder.encode(receipt) + [0x0A])
      try handle.synchronize()
    } catch {
      throw CommandFailure(
        "The account is deleted, but its receipt \(path) cannot be written (\(FaultWords.of(error))).")
    }
  }

  private static let kept = [
    "messages that the account has sent, in their recipients' mailboxes and on their way to peers, until they are fetched or "
      + "end",
    "the first ten bytes of the number's SHA-1, for 30 days, by which peers are told that it is not here any more",
    "backups, until they are replaced",
  ]
}
