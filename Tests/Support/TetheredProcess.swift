// Child processes that cannot outlive the tests.

import Foundation
package import Glibc
import Synchronization

/// A process that the kernel kills when the test process dies, however it dies.
///
/// The parent-death signal goes out when the *thread* that made the child ends, so each child has a thread of its own,
/// which makes it and then waits for it. Dropping the last reference does not end the child: `kill9()` or SIGTERM does.
package final class TetheredProcess: Sendable {
  package enum Exit: Sendable, Equatable, CustomStringConvertible {
    case code(Int32)
    case signal(Int32)

    package var description: String {
      switch self {
      case .code(let code): "exited with code \(code)"
      case .signal(let signal): "ended by signal \(signal)"
      }
    }
  }

  package struct Launch: Sendable {
    /// A path to the executable, then its arguments.
    package var command: [String]
    package var environment: [String: String]
    /// The working directory.
    package var folder: String
    /// Files that the outputs are appended to.
    package var outputFile: String
    package var errorFile: String
    package init(
      command: [String], environment: [String: String], folder: String, outputFile: String, errorFile: String
    ) {
      self.command = command
      self.environment = environment
      self.folder = folder
      self.outputFile = outputFile
      self.errorFile = errorFile
    }
  }

  package let pid: pid_t
  private let ended = Mutex<Exit?>(nil)

  private init(pid: pid_t) { self.pid = pid }

  package static func start(_ launch: Launch) async throws -> TetheredProcess {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread {
        do {
          let child = TetheredProcess(pid: try spawn(launch))
          continuation.resume(returning: child)
          child.reap()
        } catch {
          continuation.resume(throwing: error)
        }
      }
    }
  }

  /// nil while it runs.
  package var exit: Exit? { ended.withLock { $0 } }

  /// Sends `signal` unless it has ended: its number may be another process's by then.
  package func send(_ signal: Int32) {
    ended.withLock { ended in
      if ended == nil { _ = kill(pid, signal) }
    }
  }

  /// - Throws: `WaitExpired` when it still runs after `limit`.
  @discardableResult
  package func exit(within limit: Duration) async throws -> Exit {
    try await eventually("process \(pid) ends", within: limit) { self.exit }
  }

  /// Kills it, if it still runs. On return it is gone.
  package func kill9() async {
    send(SIGKILL)
    while exit == nil { await Task.yield() }
  }

  /// Blocks until it ends. The status is collected under the lock, so that no signal can reach a reused number.
  private func reap() {
    var info = siginfo_t()
    while waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) == -1, errno == EINTR {}
    ended.withLock { ended in
      var status: Int32 = 0
      while waitpid(pid, &status, 0) == -1, errno == EINTR {}
      let signal = status & 0x7F
      ended = signal == 0 ? .code(status >> 8 & 0xFF) : .signal(signal)
    }
  }

  /// `setpriv` sets the signal; a shell then checks that the parent was still there when it was set, and becomes the
  /// command.
  private static func spawn(_ launch: Launch) throws -> pid_t {
    let becomeCommand = #"[ "$PPID" = "$0" ] && cd "$1" && shift && exec "$@""#
    let guarded =
      ["setpriv", "--pdeathsig", "KILL", "sh", "-c", becomeCommand, String(getpid()), launch.folder] + launch.command

    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    let append = O_WRONLY | O_CREAT | O_APPEND
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&files, 1, launch.outputFile, append, 0o600)
    posix_spawn_file_actions_addopen(&files, 2, launch.errorFile, append, 0o600)

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var all = sigset_t()
    var none = sigset_t()
    sigfillset(&all)
    sigemptyset(&none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))

    let arguments = guarded.map { strdup($0) } + [nil]
    let environment = launch.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for text in arguments + environment { free(text) } }
    var pid: pid_t = 0
    let failure = posix_spawnp(&pid, guarded[0], &files, &attributes, arguments, environment)
    guard failure == 0 else { throw TestFailure("\(guarded[0]): \(String(cString: strerror(failure)))") }
    return pid
  }
}
