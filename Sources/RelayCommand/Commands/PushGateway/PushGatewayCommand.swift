import ArgumentParser

struct PushGatewayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push-gateway", abstract: "The Matrix push gateway.", subcommands: [PushGatewayImport.self])
}
