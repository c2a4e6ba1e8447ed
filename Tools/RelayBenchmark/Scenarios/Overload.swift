import NIOCore
import NIOPosix
import RelayClient

/// Messages offered in an open loop at several times the rate that alpha accepts at most, and what becomes of them
/// when the load falls.
struct Overload: Sendable {
  static let times = [2.0, 5.0]
  /// So many requests may be under way. Far more than a relay needs to reach its peak, so that they pile up there and
  /// not here.
  private static let connections = 4000
  private static let openedAtOnce = 64
  /// After the load has fallen.
  private static let otherFiles = 2000
  private static let drainLimit = Duration.seconds(20)

  let servers: ServerGroup
  let population: ExtraPopulation
  let settings: BenchmarkSettings

  /// To be called before the servers start: they inherit the limit.
  static func prepare() throws { try OpenFiles.allow(connections + otherFiles) }

  /// - Throws: `BenchmarkFailure` when a request failed in another way than by a refusal, or the database holds less
  ///   than what was accepted, or more than that and what was not answered.
  func run() async throws -> OverloadFigures {
    try await servers.postgres.settle()
    let peak = try await peakPerSecond()
    note("Measuring \(Int(peak / 2)) messages/s in an open loop ...")
    let normal = try await offer(0.5, of: peak, normal: nil)
    var overloads: [OverloadFigures.Load] = []
    for times in Self.times {
      note("Measuring \(Int(peak * times)) messages/s in an open loop ...")
      overloads.append(try await offer(times, of: peak, normal: normal))
    }
    return OverloadFigures(peakPerSecond: peak, normal: normal, overloads: overloads)
  }

  private func peakPerSecond() async throws -> Double {
    note("Measuring the peak ...")
    let result = try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds), pacePerSecond: nil
    )
    .run(try works(), port: servers.alpha.ports.client, readUsage: UsageWindow(servers, settings).read)
    try result.demandSuccess(of: Measurement(.messagesLocal))
    return result.perSecond
  }

  private func works() throws -> [MessageWorkload] {
    let (body, now) = (randomBytes(settings.bodyBytes), RelayClient.now())
    return try population.senders.enumerated().map { index, sender in
      try MessageWorkload(
        from: sender, to: population.recipients,
        beginningAt: index * settings.recipients / settings.connections, relay: nil, body: body, timestamp: now)
    }
  }

  private func offer(
    _ times: Double, of peak: Double, normal: OverloadFigures.Load?
  ) async throws -> OverloadFigures.Load {
    let before = try await rows()
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let works = try works()
    let open = try await loop.submit { NIOLoopBound(OpenLoop(works), eventLoop: loop) }.get()
    let connections = try await connect(open)
    do {
      let figures = try await drive(open, times, of: peak, normal: normal)
      try await settle(open)
      try await close(connections)
      try await check(open, rowsBefore: before)
      return figures
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
  }

  private func drive(
    _ open: NIOLoopBound<OpenLoop>, _ times: Double, of peak: Double, normal: OverloadFigures.Load?
  ) async throws -> OverloadFigures.Load {
    let loop = open.eventLoop
    let pace = Int(peak * times)
    try await loop.submit {
      open.value.pace(perSecond: pace)
      open.value.begin(on: loop)
    }.get()
    try await Task.sleep(for: .seconds(settings.warmUpSeconds))
    let (first, usage) = (try await loop.submit { open.value.present }.get(), try servers.readUsage())
    try await Task.sleep(for: .seconds(settings.seconds))
    let cpuSeconds = (try servers.readUsage() - usage).cpuSeconds.values.reduce(0, +)
    let fallen = try await loop.submit { [normal] in
      defer { if normal == nil { open.value.end() } else { open.value.pace(perSecond: Int(peak / 2)) } }
      return open.value.present
    }.get()
    guard let normal else {
      try await settle(open)
      return OverloadFigures.Load(
        times: times, try await slices(open)[first..<fallen], peak: peak, cpuSeconds: cpuSeconds)
    }
    try await Task.sleep(for: .seconds(OverloadFigures.recoverySeconds))
    try await loop.submit { open.value.end() }.get()
    try await settle(open)
    let slices = try await slices(open)
    var figures = OverloadFigures.Load(times: times, slices[first..<fallen], peak: peak, cpuSeconds: cpuSeconds)
    figures.secondsToRecover = Self.recovery(slices[(fallen + 1)...], normal)
    return figures
  }

  private func slices(_ open: NIOLoopBound<OpenLoop>) async throws -> [OpenLoop.Slice] {
    try await open.eventLoop.submit { open.value.slices }.get()
  }

  /// - Parameter slices: from when the load had fallen.
  /// - Returns: the seconds until all was accepted again, at a median within what 99 of 100 took normally, to the end.
  private static func recovery(_ slices: ArraySlice<OpenLoop.Slice>, _ normal: OverloadFigures.Load) -> Double? {
    let limit = max(normal.p99Millis, 2 * normal.p50Millis)
    let isNormal = slices.map { slice in
      slice.refused.count == 0 && slice.late == 0 && slice.accepted.quantile(0.5).millis <= limit
    }
    guard isNormal.last == true else { return nil }
    let disturbed = isNormal.lastIndex(of: false).map { $0 + 1 } ?? 0
    return Double(disturbed) * OpenLoop.sliceSeconds
  }

  private func connect(_ open: NIOLoopBound<OpenLoop>) async throws -> [any Channel] {
    var connections: [any Channel] = []
    let bootstrap = ClientBootstrap(group: open.eventLoop)
      .connectTimeout(.seconds(20))
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(OpenConnection(open.value))
        }
      }
    do {
      while connections.count < Self.connections {
        try Task.checkCancellation()
        let attempts = (0..<Self.openedAtOnce).map { _ in
          bootstrap.connect(host: "127.0.0.1", port: servers.alpha.ports.client)
        }
        connections += try await EventLoopFuture.whenAllSucceed(attempts, on: open.eventLoop).get()
      }
      return connections
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
  }

  /// Waits for the answers that are under way, for a while.
  private func settle(_ open: NIOLoopBound<OpenLoop>) async throws {
    let deadline = ContinuousClock.now + Self.drainLimit
    while try await open.eventLoop.submit({ open.value.underWay }).get() > 0, ContinuousClock.now < deadline {
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  private func close(_ connections: [any Channel]) async throws {
    for connection in connections { connection.close(promise: nil) }
    for connection in connections { try await connection.closeFuture.get() }
  }

  private func check(_ open: NIOLoopBound<OpenLoop>, rowsBefore: Int) async throws {
    let stored = try await rows() - rowsBefore
    let (successes, unanswered, failures) = try await open.eventLoop.submit {
      let failures = open.value.slices.reduce(into: [Int: Int]()) { $0.merge($1.failures) { $0 + $1 } }
      return (open.value.successes, open.value.underWay, failures)
    }.get()
    guard failures.isEmpty else {
      let list = failures.map { "\($0.value) times status \($0.key)" }.sorted().joined(separator: "; ")
      throw BenchmarkFailure("overload: requests failed: \(list)")
    }
    guard (successes...successes + unanswered).contains(stored) else {
      throw BenchmarkFailure(
        "overload: \(successes) messages were accepted and \(unanswered) not answered, \(stored) are stored")
    }
  }

  private func rows() async throws -> Int {
    try await servers.postgres.with(servers.alpha.database) { try $0.integer("SELECT count(*) FROM messages") }
  }
}
