import Foundation

@testable import RelayModel

/// Constants that are easy to reckon with, and the repository's own files.
enum Samples {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  static func file(_ path: String) throws -> Data { try Data(contentsOf: root.appending(path: path)) }
  static func committed() throws -> Constants { try Constants(json: try file("Tools/RelayModel/constants.json")) }

  /// Every operation costs 1 ms of relay, 0.5 of PostgreSQL and 0.1 of Redis at any rate (one that crosses as much at the
  /// peer's relay), every constant is 0 but those that are given.
  static func constants(
    _ values: [ConstantName: Double] = [:], operations: [OperationName: [[String: Double]]] = [:],
    changing: (inout [String: Any]) -> Void = { _ in }
  ) throws -> Constants {
    try Constants(json: try json(values, operations: operations, changing: changing))
  }

  static func json(
    _ values: [ConstantName: Double] = [:], operations: [OperationName: [[String: Double]]] = [:],
    changing: (inout [String: Any]) -> Void = { _ in }
  ) throws -> Data {
    let flat: [[String: Double]] = [["perSecond": 1000, "relay": 1, "peer": 1, "postgres": 0.5, "redis": 0.1]]
    var file: [String: Any] = [
      "machines": ["here": "a machine"],
      "constants": ConstantName.allCases.map { name -> [String: Any] in
        [
          "name": name.rawValue, "value": values[name] ?? 0, "unit": "ms", "measured": true, "machine": "here",
          "command": "true",
        ]
      },
      "operations": OperationName.allCases.map { name -> [String: Any] in
        [
          "name": name.rawValue, "title": name.rawValue, "measured": true, "machine": "here", "command": "true",
          "scenarios": [name == .accept ? "messages-local" : name.rawValue], "points": operations[name] ?? flat,
        ]
      },
    ]
    changing(&file)
    return try JSONSerialization.data(withJSONObject: file)
  }

  /// A message a second and thousand accounts, and nothing else.
  static var messagesOnly: Load {
    var load = Load()
    (load.accounts, load.messagesPerDay, load.peak) = (86_400, 1000, 1)
    (load.onlineShare, load.lookUpsPerDay, load.drawsPerDay, load.connectsPerHour) = (0, 0, 0, 0)
    (load.peers, load.attachmentShare) = (0, 0)
    return load
  }
}
