import ArgumentParser
import RelayCore
import Storage

struct NotificationsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "notifications", abstract: "The accounts and groups of device notifications.",
    discussion: """
      Works on the stores while `relay serve` runs on them; what changes holds from the next request. \
      docs/device-notifications.md explains the interface.
      """,
    subcommands: [User.self, Group.self, Queue.self, Numbers.self])

  struct User: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "user",
      abstract: "Customers whose servers send notifications.",
      subcommands: [Add.self, List.self, Set.self, Remove.self])
  }

  struct Group: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "group",
      abstract: "Named sets of a user's recipients.",
      subcommands: [Add.self, List.self, Remove.self, Members.self])
  }

  struct Queue: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "queue", abstract: "Show how many pushes wait for each provider.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let provider: String
      let waiting: Int
      let oldestSeconds: Int64?
    }

    func run() async throws {
      try await withStorage(configuration) { storage in
        let now = WallClock.system.now()
        let rows = try await storage.notificationQueues().map { queue in
          Row(
            provider: queue.service.rawValue, waiting: queue.waiting,
            oldestSeconds: queue.oldest.map { max(0, now.millis - $0.millis) / 1000 })
        }
        if json { return try Output.json(rows) }
        Output.table(
          [["PROVIDER", "WAITING", "OLDEST"]]
            + rows.map { [$0.provider, "\($0.waiting)", $0.oldestSeconds.map { "\($0)s" } ?? "-"] })
      }
    }
  }

  struct Numbers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "numbers",
      abstract: "Let message numbers go on above those of another system.",
      discussion: "For customers and apps that ask for what is new since a number they got there. Never goes back.")
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "The last number that was given out there.") var above: Int64

    func validate() throws {
      guard (0...999_999_999_999).contains(above) else {
        throw ValidationError("--above expects a number from 0 to 999999999999.")
      }
    }

    func run() async throws {
      try await withStorage(configuration, noting: AuditNote("notifications numbers")) { storage in
        try await storage.raiseMessageNumber(to: above)
        Output.line("The next message number is above \(above).")
      }
    }
  }

  static func user(_ text: String) throws -> NotificationUser {
    guard let name = NotificationUser(text) else {
      throw ValidationError("A user's name is 1 to 64 of A-Z a-z 0-9 . _ @ -.")
    }
    return name
  }

  static func unknown(_ user: NotificationUser) -> CommandFailure {
    CommandFailure("There is no user \"\(user)\": `relay notifications user list` shows them all.")
  }
}
