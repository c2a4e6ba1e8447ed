import NIOCore
import NIOPosix

/// A run's figures.
struct LoadResult: Sendable {
  /// Answers within the measured window, all of them successes when the run has any worth.
  let measured: Int
  let seconds: Double
  let latency: LatencyHistogram
  /// Successes of the whole run: before, within and after the window.
  let successes: Int
  let rowsChanged: Int
  let failures: [String: Int]
  /// The usage of all server processes, within the window.
  let usage: ServerUsage

  var perSecond: Double { seconds > 0 ? Double(measured) / seconds : 0 }

  /// - Throws: `BenchmarkFailure` unless every request of the run succeeded, and some did within the window.
  func demandSuccess(of measurement: Measurement) throws(BenchmarkFailure) {
    guard failures.isEmpty else {
      let list = failures.map { "\($0.value) times \($0.key)" }.sorted().joined(separator: "; ")
      throw BenchmarkFailure("\(measurement.name): requests failed: \(list)")
    }
    guard measured > 0 else { throw BenchmarkFailure("\(measurement.name): nothing was answered") }
  }
}

/// Drives a server by connections, all on one event loop, so that counting needs no locks.
struct LoadGenerator: Sendable {
  let warmUp: Duration
  let window: Duration
  /// Requests a second that fall due, whether the last ones were answered or not; nil for a closed loop.
  let pacePerSecond: Int?

  /// An answer that is still awaited when this has passed after the window counts as a failure.
  private static let drainLimit = TimeAmount.seconds(30)

  /// - Parameters:
  ///   - workloads: one for each connection.
  ///   - readUsage: read at both ends of the window; told whether it is the end.
  /// - Throws: when a connection cannot be made, and on cancellation. Failed requests are counted, not thrown.
  func run(
    _ workloads: [some Workload], port: Int, readUsage: @Sendable (_ isEnd: Bool) async throws -> ServerUsage
  ) async throws -> LoadResult {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let tally = NIOLoopBoundBox.makeBoxSendingValue(LoadTally(), eventLoop: loop)
    let pacer = try await loop.submit { [pacePerSecond] in
      NIOLoopBound(pacePerSecond.map { Pacer(perSecond: $0, tally: tally.value) }, eventLoop: loop)
    }.get()
    let connections = try await connect(workloads, tally, pacer, loop, port)
    let usage: ServerUsage
    do {
      try await loop.submit { pacer.value?.begin(on: loop) }.get()
      try await Task.sleep(for: warmUp)
      let before = try await readUsage(false)
      try await loop.submit { tally.value.beginMeasuring() }.get()
      try await Task.sleep(for: window)
      try await loop.submit { tally.value.stop() }.get()
      usage = try await readUsage(true) - before
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
    let cutOff = loop.scheduleTask(in: Self.drainLimit) {
      for connection in connections { connection.close(promise: nil) }
    }
    for connection in connections { try await connection.closeFuture.get() }
    cutOff.cancel()
    return try await loop.submit {
      let tally = tally.value
      return LoadResult(
        measured: Int(tally.latency.count), seconds: Double(tally.window.nanoseconds) / 1e9, latency: tally.latency,
        successes: tally.successes, rowsChanged: tally.rowsChanged, failures: tally.failures, usage: usage)
    }.get()
  }

  private func connect(
    _ workloads: [some Workload], _ tally: NIOLoopBoundBox<LoadTally>, _ pacer: NIOLoopBound<Pacer?>,
    _ loop: any EventLoop, _ port: Int
  ) async throws -> [any Channel] {
    var connections: [any Channel] = []
    do {
      for work in workloads {
        let bootstrap = ClientBootstrap(group: loop)
          .connectTimeout(.seconds(5))
          .channelOption(.tcpOption(.tcp_nodelay), value: 1)
          .channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
              try channel.pipeline.syncOperations.addHandler(LoadConnection(work, tally.value, pacer: pacer.value))
            }
          }
        connections.append(try await bootstrap.connect(host: "127.0.0.1", port: port).get())
      }
      return connections
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
  }
}
