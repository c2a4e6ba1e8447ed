import ArgumentParser
import RelayCore
import Storage

extension NotificationsCommand.Group {
  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "add",
      abstract: "Add a group.",
      discussion: "Names are compared without regard to case, and no two groups of a user share one.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var user: String
    @Argument(help: "The group's name.") var name: String
    @Option(help: "Another, short name.") var short: String?

    func validate() throws {
      for name in [name, short].compactMap(\.self) where !NotificationsCommand.Group.isName(name) {
        throw ValidationError("A group's name is 1 to 64 characters without commas, and no spaces at its ends.")
      }
      guard short.map({ NotificationGroup.key($0) }) != NotificationGroup.key(name) else {
        throw ValidationError("The short name has to be another one.")
      }
    }

    func run() async throws {
      let user = try NotificationsCommand.user(user)
      try await withStorage(configuration, noting: AuditNote("notifications group add", on: user)) { storage in
        switch try await storage.addNotificationGroup(NotificationGroup(name: name, shortName: short), of: user) {
        case .added: Output.line("\(name) is added.")
        case .taken: throw CommandFailure("One of these names is a group's of \(user) already.")
        case .unknownAccount: throw NotificationsCommand.unknown(user)
        }
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List a user's groups.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var user: String
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let name: String
      let short: String?
      let members: Int
    }

    func run() async throws {
      let user = try NotificationsCommand.user(user)
      try await withStorage(configuration) { storage in
        guard try await storage.notificationAccount(user, now: WallClock.system.now()) != nil else {
          throw NotificationsCommand.unknown(user)
        }
        let rows = try await storage.notificationGroups(of: user).map {
          Row(name: $0.name, short: $0.shortName, members: $0.members.count)
        }
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No groups. `relay notifications group add` makes one.") }
        Output.table([["NAME", "SHORT", "MEMBERS"]] + rows.map { [$0.name, $0.short ?? "-", "\($0.members)"] })
      }
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove", abstract: "Remove a group; its members stay recipients.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var user: String
    @Argument(help: "The group's name.") var name: String

    func run() async throws {
      let user = try NotificationsCommand.user(user)
      try await withStorage(configuration, noting: AuditNote("notifications group remove", on: user)) { storage in
        guard try await storage.removeNotificationGroup(name, of: user) else {
          throw NotificationsCommand.Group.unknown(name, of: user)
        }
        Output.line("\(name) is removed.")
      }
    }
  }

  struct Members: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "members",
      abstract: "Show a group's members, or change them.",
      discussion: """
        With --add or --remove, recipient numbers follow, comma-separated; `-` reads them from standard input, one a line. \
        A number that is no recipient of the user is passed over when something is sent.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var user: String
    @Argument(help: "The group's name.") var name: String
    @Option(help: ArgumentHelp("Members to add.", valueName: "numbers|-")) var add: String?
    @Option(help: ArgumentHelp("Members to remove.", valueName: "numbers|-")) var remove: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
      guard add != "-" || remove != "-" else { throw ValidationError("Standard input can be read once.") }
    }

    func run() async throws {
      let user = try NotificationsCommand.user(user)
      let (added, removed) = (try Self.numbers(add), try Self.numbers(remove))
      let isChange = add != nil || remove != nil
      let note = isChange ? AuditNote("notifications group members", on: user) : nil
      try await withStorage(configuration, noting: note) { storage in
        if isChange {
          guard try await storage.changeMembers(of: name, of: user, adding: added, removing: removed) else {
            throw NotificationsCommand.Group.unknown(name, of: user)
          }
          return Output.line("\(name) is changed.")
        }
        let key = NotificationGroup.key(name)
        guard
          let group = try await storage.notificationGroups(of: user).first(where: {
            NotificationGroup.key($0.name) == key
          })
        else { throw NotificationsCommand.Group.unknown(name, of: user) }
        let members = group.members.map(\.text)
        if json { return try Output.json(members) }
        for member in members { Output.line(member) }
      }
    }

    private static func numbers(_ text: String?) throws -> [RecipientNumber] {
      guard let text else { return [] }
      let words =
        if text == "-" { Array(AnyIterator { readLine(strippingNewline: true) }) } else {
          text.split(separator: ",").map(String.init)
        }
      return try words.map { $0.filter { $0 != " " } }.filter { !$0.isEmpty }.map { word in
        guard let number = RecipientNumber(text: word) else {
          throw ValidationError("Recipient numbers are 1 to 18 digits without a leading zero.")
        }
        return number
      }
    }
  }

  static func isName(_ text: String) -> Bool {
    (1...64).contains(text.count) && text.utf8.count <= 256 && !text.hasPrefix(" ") && !text.hasSuffix(" ")
      && !text.utf8.contains { $0 == UInt8(ascii: ",") || $0 < 0x20 || $0 == 0x7F }
  }

  static func unknown(_ name: String, of user: NotificationUser) -> CommandFailure {
    CommandFailure("\(user) has no group \"\(name)\": `relay notifications group list \(user)` shows them all.")
  }
}
