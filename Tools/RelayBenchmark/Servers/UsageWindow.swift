import Synchronization

/// What the servers use within one measured window.
///
/// Statements and system calls are asked for outside of the time that CPU seconds are counted in: asking costs some.
final class UsageWindow: Sendable {
  private let servers: ServerGroup
  private let settings: BenchmarkSettings
  private let calls = Mutex<SystemCalls?>(nil)

  init(_ servers: ServerGroup, _ settings: BenchmarkSettings) {
    self.servers = servers
    self.settings = settings
  }

  /// - Parameter isEnd: of the window.
  @Sendable func read(atEnd isEnd: Bool) async throws -> ServerUsage {
    guard isEnd else {
      let statements = try await servers.postgres.countStatements()
      if settings.countsSystemCalls {
        let begun = await SystemCalls.begin(servers.relayPIDs, for: settings.seconds * 0.9, in: servers.folder)
        calls.withLock { $0 = begun }
      }
      var usage = try servers.readUsage()
      usage.statements = statements
      return usage
    }
    var usage = try servers.readUsage()
    usage.statements = try await servers.postgres.countStatements()
    usage.systemCallsPerSecond = await calls.withLock { $0 }?.perSecond()
    return usage
  }
}
