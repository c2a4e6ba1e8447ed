import NIOCore
import NIOPosix

/// Senders that submit, and recipients that are connected: each message is delivered and acknowledged, and its receipt
/// is delivered to its sender, who is connected too.
///
/// All on one event loop: what one connection sends and another one receives is timed by one clock, without locks.
struct LiveLoad: Sendable {
  let warmUp: Duration
  let window: Duration
  /// Submissions a second that fall due, whether the last ones were answered or not; nil for a closed loop.
  let pacePerSecond: Int?
  /// Whether senders submit over their WebSockets.
  let isOverSocket: Bool
  /// Ports of clients' listeners.
  let sendersPort: Int
  let recipientsPort: Int

  /// The time by which accepted messages have arrived, and their senders know; a later one is counted as a failure.
  private static let settlingLimit = Duration.seconds(60)
  private static let openedAtOnce = 32

  /// One sender and what it sends.
  struct Work: Sendable {
    let sender: BenchmarkAccount
    let messages: MessageWorkload
  }

  /// - Parameters:
  ///   - work: one for each sender.
  ///   - firstTimestamp: of each sender's messages.
  ///   - readUsage: read at both ends of the window; told whether it is the end.
  /// - Throws: when a connection cannot be made, and on cancellation. Other failures are counted, not thrown.
  func run(
    _ work: [Work], firstTimestamp: Int64, to recipients: [BenchmarkAccount],
    readUsage: @Sendable (_ isEnd: Bool) async throws -> ServerUsage
  ) async throws -> LiveResult {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let run = try await loop.submit { [pacePerSecond] in
      NIOLoopBound(LiveRun(work, firstTimestamp, pacePerSecond: pacePerSecond), eventLoop: loop)
    }.get()
    var connections: [any Channel] = []
    do {
      try await connect(work, recipients, run, keeping: &connections)
      try await loop.submit { run.value.begin(on: loop) }.get()
      try await Task.sleep(for: warmUp)
      let before = try await readUsage(false)
      try await loop.submit { run.value.tally.submissions.beginMeasuring() }.get()
      try await Task.sleep(for: window)
      try await loop.submit { run.value.tally.submissions.stop() }.get()
      let usage = try await readUsage(true) - before
      try await settle(run)
      try await close(connections, run)
      return try await loop.submit { LiveResult(run.value.tally, usage) }.get()
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
  }

  /// - Parameter connections: what was made, also before a failure.
  private func connect(
    _ work: [Work], _ recipients: [BenchmarkAccount], _ run: NIOLoopBound<LiveRun>,
    keeping connections: inout [any Channel]
  ) async throws {
    var rest = (recipients.map { receiving($0, run) } + work.indices.flatMap { sending(work[$0], $0, run) })[...]
    while !rest.isEmpty {
      let underWay = rest.prefix(Self.openedAtOnce).map { $0() }
      rest = rest.dropFirst(Self.openedAtOnce)
      let opened = try await EventLoopFuture.whenAllComplete(underWay, on: run.eventLoop).get()
      for case .success(let connection) in opened { connections.append(connection) }
      for result in opened { _ = try result.get() }
    }
  }

  private typealias Opening = @Sendable () -> EventLoopFuture<any Channel>

  private func receiving(_ account: BenchmarkAccount, _ run: NIOLoopBound<LiveRun>) -> Opening {
    { open(account, at: recipientsPort, run) { LiveRecipient($0.senders, $0.tally) } }
  }

  /// The sender's WebSocket, and what it submits over unless it is that.
  private func sending(_ work: Work, _ index: Int, _ run: NIOLoopBound<LiveRun>) -> [Opening] {
    let socket: Opening = {
      open(work.sender, at: sendersPort, run) {
        SendingDevice($0.ordered[index], $0.tally, isSubmitting: isOverSocket)
      }
    }
    let submission: Opening = {
      ClientBootstrap(group: run.eventLoop)
        .connectTimeout(.seconds(5))
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(SubmissionConnection(run.value.ordered[index]))
          }
        }
        .connect(host: "127.0.0.1", port: sendersPort)
    }
    return isOverSocket ? [socket] : [socket, submission]
  }

  private func open(
    _ account: BenchmarkAccount, at port: Int, _ run: NIOLoopBound<LiveRun>,
    _ makeDevice: @escaping @Sendable (LiveRun) -> any LiveDevice
  ) -> EventLoopFuture<any Channel> {
    SocketTarget(port: port).open(
      SocketLogin(number: account.number, password: account.password), on: run.eventLoop
    ) {
      try DeviceSocket(makeDevice(run.value), run.value.tally, signalingKey: account.signalingKey)
    }
  }

  /// Waits until all that was accepted has arrived.
  private func settle(_ run: NIOLoopBound<LiveRun>) async throws {
    let deadline = ContinuousClock.now + Self.settlingLimit
    while try await !run.eventLoop.submit({ run.value.isSettled }).get() {
      guard ContinuousClock.now < deadline else {
        return try await run.eventLoop.submit { run.value.giveUp() }.get()
      }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  private func close(_ connections: [any Channel], _ run: NIOLoopBound<LiveRun>) async throws {
    try await run.eventLoop.submit { run.value.tally.end() }.get()
    for connection in connections { connection.close(promise: nil) }
    for connection in connections { try await connection.closeFuture.get() }
  }
}
