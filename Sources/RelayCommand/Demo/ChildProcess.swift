// Child processes that cannot outlive the demo.

import Foundation
import Glibc
import Synchronization

/// A process of ours that the kernel kills when this process dies, however it dies.
///
/// The parent-death signal goes out when the *thread* that made the child ends, so each child has a thread of its
/// own, which makes it and then waits for it. `setpriv` (util-linux) sets the signal; a shell then checks that the
/// parent was still there when it was set, and becomes the command.
final class ChildProcess: Sendable {
  struct Launch: Sendable {
    /// A path to the executable, then its arguments.
    var command: [String]
    var environment: [String: String]
    /// The working directory.
    var folder: String
    /// Files that the outputs are appended to.
    var standardOutput: String
    var standardError: String
  }

  enum Exit: Sendable, Equatable, CustomStringConvertible {
    case code(Int32)
    case signal(Int32)

    var description: String {
      switch self {
      case .code(let code): "it exited with code \(code)"
      case .signal(let signal): "it was ended by signal \(signal)"
      }
    }
  }

  private let pid: pid_t
  private let ended = Mutex<Exit?>(nil)

  private init(pid: pid_t) { self.pid = pid }

  /// - Throws: `DemoFailure` when the system cannot start it.
  static func start(_ launch: Launch) async throws -> ChildProcess {
    try await withCheckedThrowingContinuation { continuation in
      let thread = Thread {
        do {
          let child = ChildProcess(pid: try spawn(launch))
          continuation.resume(returning: child)
          child.reap()
        } catch {
          continuation.resume(throwing: error)
        }
      }
      thread.name = "demo child"
      thread.start()
    }
  }

  /// nil while it runs.
  var exit: Exit? { ended.withLock { $0 } }

  /// - Returns: nil when it still runs after `limit`.
  func exit(within limit: Duration) async throws -> Exit? {
    let deadline = ContinuousClock.now + limit
    while ContinuousClock.now < deadline {
      if let exit { return exit }
      try await Task.sleep(for: .milliseconds(5))
    }
    return exit
  }

  /// Asks it to end, and kills it if it has not ended `grace` later. On return it is gone.
  func stop(grace: Duration) async {
    send(SIGTERM)
    // Being cancelled only shortens the grace: it is killed then.
    if let _ = try? await exit(within: grace) { return }
    send(SIGKILL)
    while exit == nil { await Task.yield() }
  }

  /// Sends `signal` unless it has ended: its number may be another process's by then.
  private func send(_ signal: Int32) {
    ended.withLock { ended in
      if ended == nil { _ = kill(pid, signal) }
    }
  }

  /// Blocks until it ends.
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

  private static func spawn(_ launch: Launch) throws -> pid_t {
    let becomeCommand = "[ \"$PPID\" = \"$0\" ] && cd \"$1\" && shift && exec \"$@\""
    let guarded =
      ["setpriv", "--pdeathsig", "KILL", "sh", "-c", becomeCommand, String(getpid()), launch.folder] + launch.command

    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    let append = O_WRONLY | O_CREAT | O_APPEND
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&files, 1, launch.standardOutput, append, 0o600)
    posix_spawn_file_actions_addopen(&files, 2, launch.standardError, append, 0o600)

    // A group of its own, so that Ctrl-C reaches the demo alone, which then stops its children in order; and signals
    // as they are by default, since the demo ignores those that it waits for.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var all = sigset_t()
    var none = sigset_t()
    sigfillset(&all)
    sigemptyset(&none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))

    let arguments = guarded.map { strdup($0) } + [nil]
    let environment = launch.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for text in arguments + environment { free(text) } }
    var pid: pid_t = 0
    let failure = posix_spawnp(&pid, guarded[0], &files, &attributes, arguments, environment)
    guard failure == 0 else {
      throw DemoFailure("\(guarded[0]) cannot be started: \(String(cString: strerror(failure)))")
    }
    return pid
  }
}
