// A file system of a test's own, in memory, that can be full. Mounting needs root: who asks first whether it is
// possible can say what was left out.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// A `tmpfs` over a folder.
package final class TestDisk: Sendable {
  private let folder: String
  private let isMounted = Atomic(true)
  private static let bytesMax = 4 << 30

  /// Whether this process may mount; tried once.
  package static let isPossible: Bool = {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-disk-\(UUID().uuidString)").path
    do {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(atPath: folder) }  // A leftover in the temporary folder hurts nobody.
      let disk = try TestDisk(at: folder)
      try disk.fill()
      try disk.free()
      disk.remove()
      return true
    } catch {
      return false
    }
  }()

  /// Covers `folder`, which must exist; what lay in it before is hidden until `remove`.
  /// - Parameter owner: a user of the system; nil: this process's.
  package init(at folder: String, owner: String? = nil) throws {
    self.folder = folder
    let user = owner.flatMap { getpwnam($0)?.pointee }
    try Self.mount([
      "-t", "tmpfs", "-o",
      "size=\(Self.bytesMax),mode=0700,uid=\(user?.pw_uid ?? geteuid()),gid=\(user?.pw_gid ?? getegid())",
      "relay-test", folder,
    ])
  }

  deinit { remove() }

  /// From now on nothing can be written but what has its place already. Takes no memory: the disk shrinks to what is
  /// used.
  package func fill() throws {
    var tries = 0
    while true {
      var state = statvfs()
      guard statvfs(folder, &state) == 0 else { throw TestFailure("statvfs: errno \(errno)") }
      // 0 would be without a limit.
      let used = max(1, state.f_blocks - state.f_bfree) * UInt(state.f_frsize)
      do {
        return try Self.mount(["-o", "remount,size=\(used)", folder])
      } catch {
        // It has grown meanwhile.
        tries += 1
        guard tries < 50 else { throw error }
      }
    }
  }

  /// There is room again.
  package func free() throws { try Self.mount(["-o", "remount,size=\(Self.bytesMax)", folder]) }

  /// All that lay on it is gone. May be called again.
  package func remove() {
    guard isMounted.exchange(false, ordering: .acquiringAndReleasing) else { return }
    // Lazily: a process that ends may still have a file open. There is nobody to tell.
    _ = try? ChildProcess.run(Self.launch(["umount", "--lazy", folder], "/dev/null"))
  }

  private static func mount(_ arguments: [String]) throws {
    let output = FileManager.default.temporaryDirectory.appending(path: "relay-mount-\(UUID().uuidString)").path
    defer { unlink(output) }
    let exit = try ChildProcess.run(launch(["mount"] + arguments, output))
    guard exit == .code(0) else {
      let words = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""  // The code says that it failed.
      throw TestFailure("mount \(exit): \(words)")
    }
  }

  private static func launch(_ command: [String], _ output: String) -> ChildProcess.Launch {
    ChildProcess.Launch(
      command: command, environment: ProcessInfo.processInfo.environment, standardOutput: output,
      standardError: output)
  }
}
