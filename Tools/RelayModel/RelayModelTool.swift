import ArgumentParser

/// `relay-model`: says what a load needs, and what happens when a part is away (docs/scale.md).
@main struct RelayModelTool: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "relay-model",
    abstract: "Say what a load needs, from measured constants, and simulate what happens when a part is away.",
    discussion: """
      Exit codes: 0 done, 1 a prediction is too far from what was measured, or input cannot be used, 64 wrong usage.
      """,
    subcommands: [PlanCommand.self, ValidateCommand.self, SimulateCommand.self, PlotsCommand.self])
}
