import ChildProcesses
import Foundation
import Glibc

/// Counts the system calls of processes by `perf`: the kernel has no counter of them. That costs every system call on
/// the machine some time, so it is done only where it is asked for.
struct SystemCalls: Sendable {
  private let perf: ChildProcess
  private let report: URL
  private let seconds: Double

  /// Begins to count. - Returns: nil where `perf` cannot be run.
  static func begin(_ pids: [pid_t], for seconds: Double, in folder: URL) async -> SystemCalls? {
    let report = folder.appending(path: "perf-\(UUID().uuidString)")
    let command = [
      "/usr/bin/env", "perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o", report.path, "-p",
      pids.map { "\($0)" }.joined(separator: ","), "--", "sleep", "\(seconds)",
    ]
    do {
      let perf = try await ChildProcess.start(
        ChildProcess.Launch(
          command: command, environment: ["PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"],
          folder: folder.path, standardOutput: "/dev/null", standardError: "/dev/null"))
      return SystemCalls(perf: perf, report: report, seconds: seconds)
    } catch {
      return nil
    }
  }

  /// Waits for the end of the count. - Returns: calls a second; nil where `perf` did not count.
  func perSecond() async -> Double? {
    guard await perf.killed(after: .seconds(seconds + 10)) == .code(0),
      let text = try? String(contentsOf: report, encoding: .utf8),
      // `123456,,raw_syscalls:sys_enter,...`; words instead of a number where it was not counted.
      let line = text.split(separator: "\n").first(where: { $0.contains("raw_syscalls:sys_enter") }),
      let count = line.split(separator: ",", omittingEmptySubsequences: false).first.flatMap({ Double($0) })
    else { return nil }
    return count / seconds
  }
}
