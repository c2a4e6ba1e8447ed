import ArgumentParser
import Relay
import RelayConfiguration
import RelayCore

/// A user's password: never on the command line, where other users of the machine see it.
struct PasswordOption: ParsableArguments {
  @Flag(help: "Read the password from the first line of standard input.") var passwordStdin = false

  private static let lengths = 8...256

  /// - Returns: nil unless it is to be read.
  func fromInput() throws -> Secret? {
    guard passwordStdin else { return nil }
    guard let line = readLine(strippingNewline: true), Self.lengths.contains(line.utf8.count) else {
      throw CommandFailure("The password has to be 8 to 256 bytes long: the first line of standard input is not.")
    }
    return Secret(line)
  }

  /// The stored form of the password `secret`. A salted HMAC is enough for a drawn password, but not for a chosen
  /// one.
  func hash(_ secret: Secret, of user: NotificationUser) async throws -> PasswordHash {
    guard passwordStdin else { return Passwords.hash(secret) }
    do throws(Problem) {
      return try await ChosenPasswords().hash(secret, of: user)
    } catch {
      throw CommandFailure("The password cannot be hashed (\(error.reason ?? "out of memory")): try again.")
    }
  }

  /// 160 bits.
  static func random() -> Secret {
    let letters = Array("abcdefghijklmnopqrstuvwxyz234567")
    var generator = SystemRandomNumberGenerator()
    return Secret(String((0..<32).map { _ in letters[Int.random(in: 0..<32, using: &generator)] }))
  }
}

/// A user's rights, and the address for its events.
struct Terms: ParsableArguments {
  @Option(help: ArgumentHelp("Whether it may send, and its apps register.", valueName: "yes|no")) var permitted: YesNo?
  @Option(help: ArgumentHelp("Recipients that it may still send to.", valueName: "number|unlimited")) var credits:
    Amount?
  @Option(help: ArgumentHelp("Recipients that it may send to in each period.", valueName: "number|unlimited"))
  var quota: Amount?
  @Option(help: ArgumentHelp("The period of the quota, in UTC: day if not given.", valueName: "day|month")) var period:
    NotificationQuota.Period?
  @Option(name: .customLong("event-url"), help: ArgumentHelp("Where its events are sent.", valueName: "url|none"))
  var eventURL: String?
  @Option(help: ArgumentHelp("How they are sent: post if not given.", valueName: "post|get")) var eventMethod:
    EventTarget.Method?

  enum YesNo: String, ExpressibleByArgument { case yes, no }

  /// A number, or no bound.
  struct Amount: ExpressibleByArgument {
    let value: Int64?
    init?(argument: String) {
      guard argument != "unlimited" else {
        value = nil
        return
      }
      guard let number = Int64(argument), (0...1_000_000_000_000).contains(number) else { return nil }
      value = number
    }
  }

  var isEmpty: Bool {
    permitted == nil && credits == nil && quota == nil && period == nil && eventURL == nil && eventMethod == nil
  }

  func newQuota(former: NotificationQuota?) throws -> NotificationQuota? {
    let max = if let quota { quota.value } else { former?.max }
    guard let max else {
      if period != nil { throw ValidationError("--period needs a --quota.") }
      return nil
    }
    return NotificationQuota(max: max, period: period ?? former?.period ?? .day)
  }

  func newTarget(former: EventTarget?) throws -> EventTarget? {
    if eventURL == "none" { return nil }
    guard let url = eventURL ?? former?.url else {
      if eventMethod != nil { throw ValidationError("--event-method needs an --event-url.") }
      return nil
    }
    guard Self.isURL(url) else {
      throw ValidationError("--event-url expects http://HOST[:PORT][/PATH][?QUERY] or https://..., or none.")
    }
    return EventTarget(url: url, method: eventMethod ?? former?.method ?? .post)
  }

  private static func isURL(_ text: String) -> Bool {
    text.utf8.count <= 2000 && text.utf8.allSatisfy { (0x21...0x7E).contains($0) } && !text.contains("#")
      && WebURL(String(text.prefix { $0 != "?" })) != nil
  }
}

extension NotificationQuota.Period: ExpressibleByArgument {}
extension EventTarget.Method: ExpressibleByArgument {}
