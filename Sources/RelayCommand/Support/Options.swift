import ArgumentParser
import Foundation
import RelayConfiguration
import Synchronization

/// The source of the configuration; the same option for every command.
struct ConfigurationOption: ParsableArguments {
  @Option(name: .long, help: ArgumentHelp("YAML configuration file (or RELAY_CONFIG).", valueName: "file"))
  var config: String?

  /// Reads the configuration, or ends the command with every fault on standard error and exit code 78.
  /// - Parameters:
  ///   - warns: whether warnings are shown too: when the relay starts, and when the configuration is checked. A command
  ///     such as a list of peers need not repeat them.
  ///   - overrides: variables in the place of the environment's, for options that go before keys.
  func load(warns: Bool = false, overriding overrides: [String: String] = [:]) throws -> LoadedConfiguration {
    do {
      let loaded = try Self.read(config, overriding: overrides)
      for warning in warns ? loaded.warnings : [] { Output.note("warning: \(warning)") }
      return loaded
    } catch {
      for fault in error.faults { Output.note("error: \(fault)") }
      let count = error.faults.count
      Output.note(
        "\(count) \(count == 1 ? "fault" : "faults") in the configuration; docs/configuration.md lists every key.")
      throw ExitCode(78)
    }
  }
}

extension ConfigurationOption {
  /// - Parameters:
  ///   - path: of the file; nil for the one that `RELAY_CONFIG` names, if it does.
  ///   - overrides: variables in the place of the environment's.
  static func read(
    _ path: String?, overriding overrides: [String: String] = [:]
  ) throws(ConfigurationFaults) -> LoadedConfiguration {
    let environment = ProcessInfo.processInfo.environment.merging(overrides) { $1 }
    return try RelayConfiguration.load(file: path, environment: environment, readers: .relay)
  }
}

/// A command failed for a reason that its user can act on.
struct CommandFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// The output of commands: results on standard output, everything else on standard error.
enum Output {
  static func line(_ text: String) { write(text + "\n", to: .standardOutput) }
  static func note(_ text: String) { write(text + "\n", to: .standardError) }

  /// Pretty, keys sorted, on standard output.
  static func json(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    line(String(decoding: try encoder.encode(value), as: UTF8.self))
  }

  /// One line, keys sorted, on standard output.
  static func jsonLine(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    line(String(decoding: try encoder.encode(value), as: UTF8.self))
  }

  /// Rows as columns, each as wide as its widest cell.
  static func table(_ rows: [[String]]) {
    var widths: [Int] = []
    for row in rows {
      for (column, cell) in row.enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], cell.count)
      }
    }
    for row in rows {
      let cells = row.enumerated().map { column, cell in
        column == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[column] - cell.count)
      }
      line(cells.joined(separator: "  "))
    }
  }

  /// Whether all that was written could be: false once a reader went away.
  static var isRead: Bool { !hasFailed.load(ordering: .relaxed) }
  private static let hasFailed = Atomic<Bool>(false)

  private static func write(_ text: String, to handle: FileHandle) {
    do {
      try handle.write(contentsOf: Data(text.utf8))
    } catch {
      // No reason to fail: what has no end looks at `isRead`.
      hasFailed.store(true, ordering: .relaxed)
    }
  }
}

extension RelayConfiguration.Operations {
  /// The URL of a process with this configuration, from its own host.
  /// - Parameter option: what names the URL where the port is any free one.
  func url(otherwise option: String) throws -> String {
    guard port != 0 else {
      throw CommandFailure("operator.port is 0, any free one: \(option) names the process's URL, as its log tells it.")
    }
    let reachable = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
    return "http://\(reachable.contains(":") ? "[\(reachable)]" : reachable):\(port)"
  }
}
