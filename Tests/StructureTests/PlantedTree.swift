import Foundation

/// A small repository for the scripts that read this one: texts by their paths.
struct PlantedTree {
  private static let scripts = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "scripts")

  let texts: [String: String]

  init(_ texts: [String: String]) { self.texts = texts }

  /// Runs a script of `scripts/` on the tree, in a temporary folder.
  func run(_ script: String, _ options: String...) throws -> (code: Int32, output: String) {
    let root = FileManager.default.temporaryDirectory.appending(path: "relay-tree-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: root) }  // A leftover there hurts nobody.
    for (path, text) in texts {
      let file = root.appending(path: path)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try text.write(to: file, atomically: true, encoding: .utf8)
    }
    let (process, pipe) = (Process(), Pipe())
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["python3", Self.scripts.appending(path: script).path] + options + [root.path]
    process.standardOutput = pipe
    try process.run()
    let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: output, as: UTF8.self))
  }
}
