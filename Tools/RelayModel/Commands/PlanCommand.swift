import ArgumentParser

struct PlanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan", abstract: "Print what a load needs, the first bottleneck, and the cost.")

  @OptionGroup var load: LoadOptions
  @OptionGroup var hardware: HardwareOptions
  @OptionGroup var constants: ConstantsOption
  @Flag(help: "For programs.")
  var json = false

  func validate() throws {
    do {
      try load.load.check()
      try hardware.hardware.check()
    } catch let failure as ModelFailure {
      throw ValidationError("\(failure).")
    }
  }

  func run() throws {
    let planner = Planner(constants: try constants.read(), hardware: hardware.hardware)
    let plan = planner.plan(load.load)
    if json { try printJSON(plan) } else { print(plan.text) }
  }
}
