// The back ends of the suite for limits and signals: one process by itself, and several over a real Redis.

import Foundation
import Logging
import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

enum CoordinationBackend: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case local
  case redis

  var testDescription: String { rawValue }

  /// Runs `body` with `count` processes' worth of coordination that see one clock. Local coordination is one
  /// process's: there all are the same.
  func with(
    _ count: Int = 1, buckets: [LimiterName: Bucket] = [:], clock: ManualClock = ManualClock(Sample.noon),
    _ body: ([any Coordination]) async throws -> Void
  ) async throws {
    switch self {
    case .local:
      let coordination = LocalCoordination(buckets: buckets, clock: clock.wall)
      try await body(Array(repeating: coordination, count: count))
    case .redis:
      try await RedisServer.with { server in
        try await withRedis(server, count, buckets: buckets, clock: clock) { try await body($0) }
      }
    }
  }
}

/// Runs `body` with `count` processes' worth of coordination over `server`, all connected.
func withRedis(
  _ server: RedisServer, _ count: Int = 1, buckets: [LimiterName: Bucket] = [:], leased: Set<LimiterName> = [],
  clock: ManualClock = ManualClock(Sample.noon), logger: Logger = .quiet,
  _ body: ([RedisCoordination]) async throws -> Void
) async throws {
  let endpoint = RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port))
  var opened: [RedisCoordination] = []
  do {
    for _ in 0..<count {
      opened.append(
        try RedisCoordination(
          endpoint, buckets: buckets, leased: leased, clock: clock.wall, time: clock.wall, patience: .seconds(600),
          logger: logger))
    }
    for coordination in opened {
      try await eventually("Redis is reached") { await coordination.degradation() == nil }
    }
    try await body(opened)
  } catch {
    for coordination in opened { await coordination.close() }
    throw error
  }
  for coordination in opened { await coordination.close() }
}

/// The events that a listener heard.
final class Heard: Sendable {
  private let collected = Collected<SignalEvent>()
  var events: [SignalEvent] { collected.values }
  var handler: @Sendable (SignalEvent) -> Void { collected.add }
}

/// Keeps what is logged.
struct LogRecorder: LogHandler {
  final class Lines: Sendable {
    private let state = Mutex<[(Logger.Level, String)]>([])
    func add(_ level: Logger.Level, _ text: String) { state.withLock { $0.append((level, text)) } }
    func count(_ level: Logger.Level, containing text: String) -> Int {
      state.withLock { $0.count { $0.0 == level && $0.1.contains(text) } }
    }
  }
  let lines: Lines
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { lines.add(event.level, "\(event.message)") }
}
