import ArgumentParser
import Operations
import RelayCore

/// The account that a command is about. A dash reads it from standard input, so that it stands in no shell's history.
struct AccountArgument: ParsableArguments {
  @Argument(
    help: ArgumentHelp(
      "The account's number, such as +14155550100, or its handle, or - for the first line of standard input.",
      valueName: "account"))
  var account: String

  /// - Throws: `CommandFailure`, which does not repeat what was given: what is printed may be kept.
  func read() throws -> AccountReference {
    guard let reference = AccountReference(account == "-" ? readLine(strippingNewline: true) ?? "" : account) else {
      throw CommandFailure("That is no number, and no handle: give it with its leading +, such as +14155550100.")
    }
    return reference
  }
}

extension AccountReference {
  /// - Throws: `CommandFailure` for a handle of another relay.
  func number(of storage: any Storage) async throws -> AccountNumber {
    guard let number = try await number(in: storage) else {
      throw CommandFailure("The handle is not one of this relay: `relay accounts list` shows them all.")
    }
    return number
  }
}

extension CommandFailure {
  static let noAccount = CommandFailure(
    "There is no such account here. `relay directory owner` says which peer claims it.")
}

/// A number that a command is about. A dash reads it from standard input, so that it stands in no shell's history.
struct NumberArgument: ParsableArguments {
  @Argument(help: "The number, such as +14155550100, or - for the first line of standard input.") var number: String

  /// - Throws: `CommandFailure`, which does not repeat what was given: what is printed may be kept.
  func read() throws -> AccountNumber {
    let text = number == "-" ? readLine(strippingNewline: true) ?? "" : number
    guard let number = AccountNumber(e164: text) else {
      throw CommandFailure("That is no number: give it with its leading +, such as +14155550100.")
    }
    return number
  }
}
