import ArgumentParser
import Foundation

struct ValidateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "validate", abstract: "Hold the model's predictions against what was measured.",
    discussion: """
      The file is one of points, as Tools/RelayModel/points.json, or the figures of relay-bench --json. Figures that \
      the constants were taken from prove nothing: measure at another pace (relay-bench --pace).
      """)

  @Argument(help: "The file of what was measured.")
  var file: String
  @Option(help: "How far a prediction may be from what was measured, as a share of it.")
  var errorMax = 0.2
  @OptionGroup var constants: ConstantsOption
  @Flag(help: "For programs.")
  var json = false

  func validate() throws {
    guard errorMax > 0, errorMax < 10 else { throw ValidationError("--error-max goes from 0 to 10.") }
  }

  func run() throws {
    guard let data = FileManager.default.contents(atPath: file) else { throw ModelFailure("there is no file \(file)") }
    let constants = try constants.read()
    let measured = try MeasuredPoints(json: data, constants)
    let validation = Validation(measured.points, constants, errorMax: errorMax)
    if json {
      try printJSON(validation)
    } else {
      print(validation.table.lines.joined(separator: "\n"))
      if !measured.skipped.isEmpty {
        print("The model says nothing of " + measured.skipped.joined(separator: ", ") + ".")
      }
    }
    guard validation.isGood else { throw ExitCode.failure }
  }
}
