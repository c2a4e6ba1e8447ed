import ArgumentParser
import RelayConfiguration

/// A word where a subcommand has to stand, and that is none: the parser says no more than that it is unexpected.
enum UnknownCommand {
  /// - Parameter arguments: without the program's name.
  /// - Returns: what to tell; nil where every subcommand is one.
  static func complaint(about arguments: [String]) -> String? {
    complaint(about: arguments[...], of: RelayTool.self, "relay")
  }

  private static func complaint(
    about arguments: ArraySlice<String>, of command: any ParsableCommand.Type, _ place: String
  ) -> String? {
    let subcommands = command.configuration.subcommands
    // Options may have values that look like commands.
    guard let word = arguments.first, !subcommands.isEmpty, !word.hasPrefix("-"), word != "help" else {
      return nil
    }
    if let next = subcommands.first(where: { $0._commandName == word }) {
      return complaint(about: arguments.dropFirst(), of: next, "\(place) \(word)")
    }
    guard command.configuration.defaultSubcommand == nil else { return nil }
    let near = Spelling.nearest(to: word, among: subcommands.map { $0._commandName })
    let hint = near.map { " Did you mean `\(place) \($0)`?" } ?? ""
    return "Error: `\(place)` has no command `\(word)`.\(hint)\n`\(place) --help` lists them all."
  }
}
