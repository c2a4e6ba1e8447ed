import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// docs/security.md says what scripts/directory-exposure.py computes.
@Suite(.tags(.processes)) struct DirectoryExposureTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  @Test func `the tables of what can be learnt are those that the script computes from the defaults`() async throws {
    let output = try await MachineRoom.with {
      let folder = FileManager.default.temporaryDirectory.appending(path: "relay-exposure-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      // A leftover in the temporary folder must not hide why the test failed.
      defer { try? FileManager.default.removeItem(at: folder) }
      let (output, errors) = (folder.appending(path: "output"), folder.appending(path: "errors"))
      let child = try await ChildProcess.start(
        ChildProcess.Launch(
          command: ["/usr/bin/env", "python3", Self.root.appending(path: "scripts/directory-exposure.py").path],
          environment: ProcessInfo.processInfo.environment, standardOutput: output.path, standardError: errors.path))
      let exit = await child.killed(after: .seconds(60))
      let complaint = try String(contentsOf: errors, encoding: .utf8)
      #expect(exit == .code(0), "\(complaint)")
      return try String(contentsOf: output, encoding: .utf8)
    }
    #expect(output.split(separator: "\n").count > 20)
    let page = try String(contentsOf: Self.root.appending(path: "docs/security.md"), encoding: .utf8)
    #expect(page.contains("-->\n\n\(output)\n<!-- End of the output. -->"), "run scripts/directory-exposure.py again")
  }
}
