import ArgumentParser
import DeviceNotifications
import Foundation
import Storage
import VOPRF

enum Version {
  /// As CHANGELOG.md.
  static let current = "0.1.0"

  /// The text that `--version` prints. The arguments are not parsed yet when it is asked for.
  static var text: String {
    let name = "relay \(current)"
    guard CommandLine.arguments.contains("--packages") else { return name }
    let packages = ResolvedPackages.all.map { [$0.name, $0.version, String($0.revision.prefix(12))] }
    let libraries =
      LinkedLibraries.all.map { [$0.name, $0.version] }
      + [["libsodium", SodiumLibrary.version], ["libxml2", XMLLibrary.version]]
    return ([name, "", "Swift packages"] + lines(packages) + ["", "Libraries of the system"] + lines(libraries))
      .joined(separator: "\n")
  }

  private static func lines(_ rows: [[String]]) -> [String] {
    let width = rows.map { $0[0].count }.max() ?? 0
    return rows.map { row in
      "  " + row[0].padding(toLength: width + 2, withPad: " ", startingAt: 0) + row.dropFirst().joined(separator: "  ")
    }
  }
}
