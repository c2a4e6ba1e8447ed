import Logging
import NIOSSL
import RelayCore
import RelayHTTP
import Synchronization
import TestSupport
import Testing

@testable import Directory

/// Listeners of parts within this process, on ports that they keep, and a client of theirs.
final class PartServers: Sendable {
  static let key = SecretBytes([UInt8](repeating: 7, count: 32))

  let log = CollectedLog()
  private let running = Mutex<[Int: Task<Void, Never>]>([:])

  /// Runs `body`, and stops what it has started.
  static func with(_ body: (PartServers) async throws -> Void) async throws {
    let servers = PartServers()
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body(servers))
    } catch {
      outcome = .failure(error)
    }
    for port in servers.running.withLock({ Array($0.keys) }) { await servers.stop(port) }
    try outcome.get()
  }

  func start(
    _ view: DirectoryView, at port: Int, tls: NIOSSLContext? = nil, drain: DrainState = DrainState()
  ) async throws {
    let begun = AsyncStream.makeStream(of: Void.self)
    let secure: (@Sendable () -> NIOSSLContext)? = if let tls { { tls } } else { nil }
    let listener = PartListener(
      host: "127.0.0.1", port: port, view: view, key: Self.key, tls: secure, drain: drain
    ) { _ in begun.continuation.yield() }
    let task = Task {
      // It ends by being cancelled.
      do { try await listener.run() } catch {}
      begun.continuation.finish()
    }
    running.withLock { $0[port] = task }
    for await _ in begun.stream { return }
    throw TestFailure("the listener did not begin")
  }

  func stop(_ port: Int) async {
    let task = running.withLock { $0.removeValue(forKey: port) }
    task?.cancel()
    await task?.value
  }

  /// What asks the processes at `ports`, by part.
  func parts(_ ports: [(DirectoryPartition, Int)], limit: Duration = .seconds(10)) -> DirectoryParts {
    DirectoryParts(
      ports.map { PartAddress($0, host: "127.0.0.1", port: $1) }, client: PartClient(key: Self.key, limit: limit),
      logger: log.logger)
  }
}
