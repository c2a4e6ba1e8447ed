import ArgumentParser
import Operations
import RelayCore
import RelayHTTP

struct ExportAccountCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export", abstract: "Write down what is kept for an account.",
    discussion: """
      JSON, for the person whose account it is, or for a court. It names the number, the devices with what their clients \
      call them, and the public identity key. It holds no secrets and no messages, which are encrypted, and says what is \
      left out.
      """)
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var account: AccountArgument
  @Option(help: ArgumentHelp("Write to this new file, which its owner alone may read.", valueName: "file"))
  var output: String?

  func run() async throws {
    let reference = try account.read()
    try await withStorage(configuration) { storage in
      let number = try await reference.number(of: storage)
      try await storage.noting(AuditNote("accounts export", on: .account(number))) {
        let now = WallClock.system.now()
        guard let export = try await AccountReports(store: storage).export(of: number, at: now) else {
          throw CommandFailure.noAccount
        }
        guard let output else { return try Output.json(export) }
        let file = try PrivateFile(output)
        do {
          try file.write(export)
        } catch {
          file.remove()
          throw CommandFailure("The file \(output) cannot be written (\(FaultWords.of(error))).")
        }
        Output.note("Written to \(output).")
      }
    }
  }
}
