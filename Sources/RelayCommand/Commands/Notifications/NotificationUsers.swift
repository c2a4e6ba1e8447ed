import ArgumentParser
import RelayCore
import Storage
import Synchronization

extension NotificationsCommand.User {
  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "add",
      abstract: "Add a user, with a new password that is printed once.",
      discussion: "With --password-stdin the password is the first line of standard input.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The name that its requests bring.") var name: String
    @OptionGroup var password: PasswordOption
    @OptionGroup var terms: Terms

    func run() async throws {
      let name = try NotificationsCommand.user(name)
      let secret = try password.fromInput() ?? PasswordOption.random()
      let (stored, now) = (try await password.hash(secret, of: name), WallClock.system.now())
      try await withStorage(configuration, noting: AuditNote("notifications user add", on: name)) { storage in
        var account = NotificationAccount(name: name, password: stored, created: now)
        account.isPermitted = terms.permitted != .no
        account.credits = terms.credits?.value
        account.quota = try terms.newQuota(former: nil)
        account.eventTarget = try terms.newTarget(former: nil)
        guard try await storage.addNotificationAccount(account) else {
          throw CommandFailure("There is a user \"\(name)\" already: `relay notifications user set` changes it.")
        }
        Output.note("\(name) is added.")
        if !password.passwordStdin { Output.line(secret.value) }
      }
    }
  }

  struct Set: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "set",
      abstract: "Change a user.", discussion: "What is not given stays. A new quota begins a new count.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var name: String
    @OptionGroup var password: PasswordOption
    @Flag(help: "Make a new password, which is printed once.") var newPassword = false
    @OptionGroup var terms: Terms

    func validate() throws {
      guard newPassword || password.passwordStdin || !terms.isEmpty else { throw ValidationError("Nothing to change.") }
      guard !newPassword || !password.passwordStdin else {
        throw ValidationError("Give --new-password or --password-stdin.")
      }
    }

    func run() async throws {
      let name = try NotificationsCommand.user(name)
      let secret = newPassword ? PasswordOption.random() : try password.fromInput()
      let stored: PasswordHash? = if let secret { try await password.hash(secret, of: name) } else { nil }
      let now = WallClock.system.now()
      try await withStorage(configuration, noting: AuditNote("notifications user set", on: name)) { storage in
        guard let former = try await storage.notificationAccount(name, now: now) else {
          throw NotificationsCommand.unknown(name)
        }
        var change = NotificationAccountChange()
        change.password = stored
        change.isPermitted = terms.permitted.map { $0 == .yes }
        if let credits = terms.credits { change.credits = .set(credits.value) }
        if terms.quota != nil || terms.period != nil { change.quota = .set(try terms.newQuota(former: former.quota)) }
        if terms.eventURL != nil || terms.eventMethod != nil {
          change.eventTarget = .set(try terms.newTarget(former: former.eventTarget))
        }
        guard try await storage.changeNotificationAccount(name, change, now: now) else {
          throw NotificationsCommand.unknown(name)
        }
        Output.note("\(name) is changed.")
        if newPassword, let secret { Output.line(secret.value) }
      }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List all users.", discussion: "Of event URLs what stands behind a question mark is not shown.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let name: String
      let permitted: Bool
      let credits: Int64?
      let quota: Int64?
      let period: String?
      let used: Int64
      let eventURL: String?
      let eventMethod: String?
      let created: String

      init(_ account: NotificationAccount) {
        name = account.name.text
        permitted = account.isPermitted
        credits = account.credits
        quota = account.quota?.max
        period = account.quota?.period.rawValue
        used = account.used
        eventURL = account.eventTarget.map { target in
          let shown = target.url.prefix { $0 != "?" }
          return shown.count == target.url.count ? target.url : shown + "?..."
        }
        eventMethod = account.eventTarget?.method.rawValue
        created = account.created.iso8601
      }
    }

    func run() async throws {
      try await withStorage(configuration) { storage in
        let rows = try await storage.notificationAccounts(now: WallClock.system.now()).map { Row($0) }
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No users. `relay notifications user add` makes one.") }
        Output.table(
          [["NAME", "PERMITTED", "CREDITS", "USED", "QUOTA", "EVENTS TO"]]
            + rows.map { row in
              [
                row.name, row.permitted ? "yes" : "no", row.credits.map { "\($0)" } ?? "unlimited", "\(row.used)",
                row.quota.map { "\($0) a \(row.period ?? "-")" } ?? "unlimited",
                row.eventURL.map { "\(row.eventMethod ?? "post") \($0)" } ?? "-",
              ]
            })
      }
    }
  }

  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove",
      abstract: "Remove a user with its recipients, groups, notifications and events.",
      discussion: """
        Its apps have to register anew if it comes back. To shut it out only: `set NAME --permitted no`. What is \
        interrupted goes on when the command is given again.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The user's name.") var name: String

    /// Says at every so many rows that there is more to do.
    private final class Progress: Sendable {
      private static let step = 10_000
      private let shown = Mutex(0)

      func show(_ rows: Int) {
        let isNews = shown.withLock { shown in
          guard rows >= shown + Self.step else { return false }
          shown = rows
          return true
        }
        if isNews { Output.note("\(rows) rows are removed.") }
      }
    }

    func run() async throws {
      let name = try NotificationsCommand.user(name)
      try await withStorage(configuration, noting: AuditNote("notifications user remove", on: name)) { storage in
        let progress = Progress()
        guard try await storage.removeNotificationAccount(name, progress: { progress.show($0) }) else {
          throw NotificationsCommand.unknown(name)
        }
        Output.line("\(name) is removed.")
      }
    }
  }
}
