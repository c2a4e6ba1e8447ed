import Foundation
import RelayConfiguration
import TestTags
import Testing

/// Each folder of `Bad` holds a configuration (`config.yaml`, perhaps `environment`) and every fault of it, line by
/// line, in `expected`.
@Suite(.tags(.unit)) struct BadConfigurationTests {
  @Test(arguments: try BadConfiguration.all())
  func `a bad configuration is refused with exactly the expected faults`(_ bad: BadConfiguration) throws {
    let faults = try #require(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: bad.folder + "/config.yaml", environment: bad.environment)
    }
    #expect(faults.description.replacing(bad.folder + "/", with: "") == bad.expected)
    #expect(!faults.description.contains("hunter2"), "a secret is shown")
  }

  @Test func `a file that cannot be read is one fault, and the environment's faults come with it`() throws {
    let faults = try #require(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: "/nonexistent/relay.yaml", environment: ["RELAY_CLIENT_PORT": "x"])
    }
    #expect(
      faults.faults.map(\.description) == [
        "/nonexistent/relay.yaml: cannot be read: No such file or directory",
        "RELAY_CLIENT_PORT: expects a port from 0 to 65535, not \"x\"",
      ])
  }
}

struct BadConfiguration: Sendable, CustomTestStringConvertible {
  let folder: String
  let environment: [String: String]
  let expected: String

  var testDescription: String { URL(fileURLWithPath: folder).lastPathComponent }

  static func all() throws -> [BadConfiguration] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Bad")
    return try FileManager.default.contentsOfDirectory(atPath: root.path).sorted().map { name in
      let folder = root.appendingPathComponent(name)
      let lines = try? String(contentsOf: folder.appendingPathComponent("environment"), encoding: .utf8)
      let pairs = (lines ?? "").split(separator: "\n").map {
        $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      }
      return BadConfiguration(
        folder: folder.path,
        environment: Dictionary(uniqueKeysWithValues: pairs.map { (String($0[0]), String($0[1])) }),
        expected: try String(contentsOf: folder.appendingPathComponent("expected"), encoding: .utf8)
          .trimmingCharacters(in: .newlines))
    }
  }
}
