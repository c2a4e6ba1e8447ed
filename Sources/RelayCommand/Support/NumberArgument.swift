import ArgumentParser
import RelayCore

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
