import ArgumentParser
import Foundation
import Glibc
import PushGateway
import RelayConfiguration
import RelayCore
import RelayHTTP

struct PushGatewayImport: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Translate a configuration of Sygnal into this relay's.",
    discussion: """
      Prints the section push-gateway of a relay's YAML file, to be put there as it is, and on standard error what has no \
      equivalent and what is to be looked at. Keys and certificates stay where they are, and are not looked at. Exits \
      with 1 when Sygnal would not start with that file either.
      """)

  @Argument(help: ArgumentHelp("Sygnal's YAML file.", valueName: "sygnal.yaml")) var file: String
  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Write to a new file in place of standard output.", valueName: "file"))
  var output: String?

  func run() async throws {
    let imported = try Self.translate(file)
    for note in imported.notes { Output.note("note: \(note)") }
    guard let output else {
      // The command ends the last line itself.
      return Output.line(String(imported.yaml.trimmingSuffix("\n")))
    }
    try Self.write(imported.yaml, to: output)
    Output.note("Written to \(output). `relay check --config \(output)` says whether a relay can use it.")
  }

  private static func translate(_ file: String) throws -> SygnalImport {
    let sygnal: JSONValue
    do throws(ConfigurationFault) {
      sygnal = try YAMLTree.read(file: file)
    } catch {
      throw CommandFailure(error.description)
    }
    do throws(PushAppFaults) {
      return try SygnalImport(sygnal)
    } catch {
      throw CommandFailure(error.faults.map { "\(file): \($0)" }.joined(separator: "\n"))
    }
  }

  /// For the owner alone: an API key of legacy FCM may stand in it.
  private static func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw CommandFailure("\(path) cannot be made: \(FaultWords.ofSystem(errno)).") }
    let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    do {
      try handle.write(contentsOf: Data(text.utf8))
      try handle.close()
    } catch {
      throw CommandFailure("\(path) cannot be written: \(FaultWords.of(error)). Check its folder and who owns it.")
    }
  }
}

extension String {
  fileprivate func trimmingSuffix(_ suffix: Character) -> Substring {
    var text = self[...]
    while text.last == suffix { text.removeLast() }
    return text
  }
}

struct PushGatewayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push-gateway", abstract: "The Matrix push gateway.", subcommands: [PushGatewayImport.self])
}
