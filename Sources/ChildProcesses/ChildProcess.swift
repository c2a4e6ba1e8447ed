// Child processes that cannot outlive the program that made them: for the demo, the benchmark and the tests.

package import Foundation
import Glibc
import NIOCore
import NIOPosix
import RelayWork
import Synchronization

/// A process of ours that the kernel signals when this process dies, however it dies.
///
/// The parent-death signal goes out when the *thread* that made the child ends, so each child has a thread of its own,
/// which makes it and then waits for it. `setpriv` (util-linux) changes the user, sets the signal and becomes a shell,
/// which checks that the parent was still there when it was set, and becomes the command: one process throughout.
package final class ChildProcess: Sendable {
  package struct Launch: Sendable {
    /// A path to the executable, then its arguments.
    package var command: [String]
    package var environment: [String: String]
    /// The working directory.
    package var folder: String
    /// Files that the outputs are appended to.
    package var standardOutput: String
    package var standardError: String
    /// The user that it runs as; nil for the present user.
    package var user: String?
    /// The signal that the kernel sends when this process dies: a name as `setpriv` knows it.
    package var deathSignal = "KILL"

    package init(
      command: [String], environment: [String: String], folder: String = "/", standardOutput: String,
      standardError: String, user: String? = nil, deathSignal: String = "KILL"
    ) {
      self.command = command
      self.environment = environment
      self.folder = folder
      self.standardOutput = standardOutput
      self.standardError = standardError
      self.user = user
      self.deathSignal = deathSignal
    }
  }

  package enum Exit: Sendable, Equatable, CustomStringConvertible {
    case code(Int32)
    case signal(Int32)

    package var description: String {
      switch self {
      case .code(let code): "it exited with code \(code)"
      case .signal(let signal): "it was ended by signal \(signal)"
      }
    }
  }

  package let pid: pid_t
  private let state = Mutex(State())

  private struct State {
    var exit: Exit?
    var waiters: [CheckedContinuation<Exit, Never>] = []
  }

  private init(pid: pid_t) { self.pid = pid }

  /// - Throws: `LaunchFailure` when the system cannot start it.
  package static func start(_ launch: Launch) async throws -> ChildProcess {
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
      thread.name = "child"
      thread.start()
    }
  }

  /// Runs one to its end on the calling thread, which it blocks.
  ///
  /// Processes that it leaves behind do not hold it up. Foundation's `Process` differs: it waits for a socket that
  /// every descendant may have inherited.
  package static func run(_ launch: Launch) throws -> Exit {
    let child = ChildProcess(pid: try spawn(launch))
    return child.reap()
  }

  /// nil while it runs.
  package var exit: Exit? { state.withLock { $0.exit } }

  /// Waits for its end, also when the task is cancelled.
  package func ended() async -> Exit {
    await withCheckedContinuation { continuation in
      let exit = state.withLock { state in
        if state.exit == nil { state.waiters.append(continuation) }
        return state.exit
      }
      if let exit { continuation.resume(returning: exit) }
    }
  }

  /// Sends `signal`, and kills it if it has not ended `grace` later. On return it is gone.
  @discardableResult
  package func stop(_ signal: Int32 = SIGTERM, grace: Duration = .seconds(10)) async -> Exit {
    send(signal)
    return await killed(after: grace)
  }

  /// Waits for its end, and kills it when it has not ended after `limit`.
  package func killed(after limit: Duration) async -> Exit {
    let killer = Countdown(of: limit) { self.send(SIGKILL) }
    defer { killer.cancel() }
    return await ended()
  }

  /// Sends `signal` unless it has ended: its number may be another process's by then.
  package func send(_ signal: Int32) {
    state.withLock { state in
      if state.exit == nil { _ = kill(pid, signal) }
    }
  }

  /// Blocks until it ends.
  @discardableResult
  private func reap() -> Exit {
    var info = siginfo_t()
    while waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) == -1, errno == EINTR {}
    let (exit, waiters) = state.withLock { state in
      var status: Int32 = 0
      while waitpid(pid, &status, 0) == -1, errno == EINTR {}
      let signal = status & 0x7F
      let exit = signal == 0 ? Exit.code(status >> 8 & 0xFF) : .signal(signal)
      state.exit = exit
      defer { state.waiters = [] }
      return (exit, state.waiters)
    }
    for waiter in waiters { waiter.resume(returning: exit) }
    return exit
  }

  private static func spawn(_ launch: Launch) throws -> pid_t {
    let becomeCommand = "[ \"$PPID\" = \"$0\" ] && cd \"$1\" && shift && exec \"$@\""
    let user = launch.user.map { ["--reuid", $0, "--regid", $0, "--init-groups"] } ?? []
    let guarded =
      ["setpriv"] + user + ["--pdeathsig", launch.deathSignal]
      + ["sh", "-c", becomeCommand, String(getpid()), launch.folder] + launch.command

    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    let append = O_WRONLY | O_CREAT | O_APPEND
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&files, 1, launch.standardOutput, append, 0o600)
    posix_spawn_file_actions_addopen(&files, 2, launch.standardError, append, 0o600)
    // Nothing else of ours: a socket that a child holds too does not end when we close it, nor is its port free.
    _ = addCloseFrom(&files, 3)

    // A group of its own, so that Ctrl-C reaches the parent alone, which then stops its children in order; and signals
    // as they are by default, since a parent may ignore those that it waits for.
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
      throw LaunchFailure(program: guarded[0], code: failure)
    }
    return pid
  }
}

package struct LaunchFailure: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) { self.description = description }

  /// - Parameter code: an `errno`.
  init(program: String, code: Int32) {
    description =
      code == ENOENT
      ? "\(program) cannot be started: no folder of PATH has it. Install it (Debian: util-linux), or correct PATH."
      : "\(program) cannot be started: \(String(cString: strerror(code)))"
  }
}

/// glibc's `posix_spawn_file_actions_addclosefrom_np` (2.34), which its header keeps from Swift.
@_silgen_name("posix_spawn_file_actions_addclosefrom_np")
private func addCloseFrom(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>, _ descriptor: Int32) -> Int32

/// The end of what a child wrote, for whoever looks for the reason of its failure.
package enum LogTail {
  /// - Returns: the last lines of the file's last 64 KiB.
  package static func lines(_ count: Int, of file: URL) throws -> [Substring] {
    let handle = try FileHandle(forReadingFrom: file)
    defer { try? handle.close() }  // It was only read.
    let end = try handle.seekToEnd()
    try handle.seek(toOffset: end - min(end, 64 << 10))
    let text = String(decoding: try handle.readToEnd() ?? Data(), as: UTF8.self)
    return text.split(separator: "\n").suffix(count)
  }
}

/// Ports of the loopback address that nobody listened on just now.
package enum FreePorts {
  /// - Returns: `count` different ones, held until all were found.
  package static func find(_ count: Int) async throws -> [Int] {
    var held: [any Channel] = []
    for _ in 0..<count {
      held.append(
        try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup).bind(host: "127.0.0.1", port: 0).get())
    }
    let ports = held.compactMap { $0.localAddress?.port }
    for channel in held { try await channel.close().get() }
    guard ports.count == count else { throw LaunchFailure("no child can be started: the system named no free port") }
    return ports
  }
}
