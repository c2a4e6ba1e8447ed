import ArgumentParser
import Foundation

struct PlotsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plots", abstract: "Draw the pictures of docs/scale.md, and fill its tables.")

  @Option(help: "The folder of the pictures.")
  var folder = "docs/images"
  @Option(help: "The page whose tables are filled.")
  var page = "docs/scale.md"
  @Option(help: "The file of what was measured.")
  var points = "Tools/RelayModel/points.json"
  @OptionGroup var constants: ConstantsOption
  @Flag(help: "Write nothing; fail where a file would change.")
  var check = false

  func run() throws {
    let constants = try constants.read()
    let generated = try GeneratedFiles(
      constants, points: try read(points), page: String(decoding: try read(page), as: UTF8.self))
    var stale: [String] = []
    for (path, text) in [(page, generated.page)] + generated.pictures.map({ ("\(folder)/\($0.name)", $0.text) }) {
      if FileManager.default.contents(atPath: path) == Data(text.utf8) { continue }
      stale.append(path)
      if check { continue }
      let file = URL(filePath: path)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: file)
    }
    if check, !stale.isEmpty {
      throw ModelFailure("not in step with the constants: \(stale.joined(separator: ", ")); run make model")
    }
    print(stale.isEmpty ? "nothing has changed" : "written: \(stale.joined(separator: ", "))")
  }

  private func read(_ path: String) throws -> Data {
    guard let data = FileManager.default.contents(atPath: path) else { throw ModelFailure("there is no file \(path)") }
    return data
  }
}
