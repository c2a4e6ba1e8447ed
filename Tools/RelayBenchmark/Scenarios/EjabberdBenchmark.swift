import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOPosix

/// Messages over ejabberd: for users who never connect, and for users who are connected, at a pace.
struct EjabberdBenchmark: Sendable {
  private static let recipients = 200
  /// Messages before a client waits for the answer to a ping.
  private static let messagesEach = 10
  private static let patience = Duration.seconds(60)

  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  func run() async throws -> EjabberdFigures {
    let senders = (0..<settings.connections).map { "sender\($0)" }
    let present = (0..<settings.connections).map { "present\($0)" }
    let absent = (0..<Self.recipients).map { "absent\($0)" }
    note("Starting ejabberd ...")
    let server = try await EjabberdServer.start(
      in: workshop, over: servers.postgres, users: senders + present + absent)
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let load = try await loop.submit { NIOLoopBound(XMPPLoad(), eventLoop: loop) }.get()
    let body = String(decoding: randomBytes(settings.bodyBytes * 4 / 3).map { 0x61 + $0 % 26 }, as: UTF8.self)
    var channels: [any Channel] = []
    for (index, user) in (senders + present).enumerated() {
      channels.append(try await connect(user, isSender: index < senders.count, server, load))
    }
    note("Measuring ejabberd, offline messages ...")
    let offline = try await offline(load, absent, body, server)
    var online: [EjabberdFigures.Figure] = []
    for pace in settings.pacesPerSecond {
      note("Measuring ejabberd at \(pace)/s ...")
      online.append(try await self.online(load, present, body, pace, server))
    }
    for channel in channels { channel.close(promise: nil) }
    await server.process.stop(SIGKILL)
    return EjabberdFigures(offline: offline, online: online)
  }

  private func connect(
    _ user: String, isSender: Bool, _ server: EjabberdServer, _ load: NIOLoopBound<XMPPLoad>
  ) async throws -> any Channel {
    let opened = load.eventLoop.makePromise(of: Void.self)
    let channel: any Channel
    do {
      channel = try await ClientBootstrap(group: load.eventLoop)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            let connection = XMPPConnection(
              user, at: EjabberdServer.domain, password: EjabberdServer.password, opened: opened)
            load.value.add(connection, isSender: isSender)
            try channel.pipeline.syncOperations.addHandler(connection)
          }
        }
        .connect(host: "127.0.0.1", port: server.port).get()
    } catch {
      opened.fail(error)
      throw error
    }
    let limit = load.eventLoop.scheduleTask(in: .seconds(30)) {
      opened.fail(BenchmarkFailure("ejabberd did not let a client in"))
    }
    try await opened.futureResult.get()
    limit.cancel()
    return channel
  }

  /// Sends for as long as a scenario is measured, and waits until all of it is in the database: both count.
  private func offline(
    _ load: NIOLoopBound<XMPPLoad>, _ absent: [String], _ body: String, _ server: EjabberdServer
  ) async throws -> EjabberdFigures.Figure {
    let (before, start) = (try usage(server), ContinuousClock.now)
    try await load.eventLoop.submit { load.value.sendBehindPings(to: absent, body, each: Self.messagesEach) }.get()
    try await Task.sleep(for: .seconds(settings.seconds))
    let sent = try await load.eventLoop.submit {
      load.value.stop()
      return load.value.sent
    }.get()
    let deadline = ContinuousClock.now + Self.patience
    while try await stored() < sent {
      guard ContinuousClock.now < deadline else {
        throw BenchmarkFailure("ejabberd: \(sent) messages were sent, \(try await stored()) are stored")
      }
      try await Task.sleep(for: .milliseconds(100))
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    return EjabberdFigures.Figure(
      pacePerSecond: nil, messages: sent, perSecond: Double(sent) / seconds, p50Millis: nil, p99Millis: nil,
      cpuSecondsPerThousand: CPUPerThousand(Self.difference(try usage(server), before), count: sent))
  }

  private func online(
    _ load: NIOLoopBound<XMPPLoad>, _ present: [String], _ body: String, _ pace: Int, _ server: EjabberdServer
  ) async throws -> EjabberdFigures.Figure {
    try await load.eventLoop.submit { load.value.send(to: present, body, perSecond: pace, load) }.get()
    try await Task.sleep(for: .seconds(settings.warmUpSeconds))
    try await load.eventLoop.submit { load.value.beginMeasuring() }.get()
    let before = try usage(server)
    try await Task.sleep(for: .seconds(settings.seconds))
    let after = try usage(server)
    let latency = try await load.eventLoop.submit {
      load.value.stop()
      return load.value.latency
    }.get()
    let deadline = ContinuousClock.now + Self.patience
    while try await load.eventLoop.submit({ load.value.underWay }).get() > 0 {
      guard ContinuousClock.now < deadline else { throw BenchmarkFailure("ejabberd: messages were not delivered") }
      try await Task.sleep(for: .milliseconds(50))
    }
    let count = Int(latency.count)
    return EjabberdFigures.Figure(
      pacePerSecond: pace, messages: count, perSecond: Double(count) / settings.seconds,
      p50Millis: latency.quantile(0.5).millis, p99Millis: latency.quantile(0.99).millis,
      cpuSecondsPerThousand: CPUPerThousand(Self.difference(after, before), count: count))
  }

  private func stored() async throws -> Int {
    try await servers.postgres.with(EjabberdServer.database) { try $0.integer("SELECT count(*) FROM spool") }
  }

  private func usage(_ server: EjabberdServer) throws -> [String: Double] {
    [
      "ejabberd": try ProcessUsage.cpuSecondsOfFamily(server.process.pid),
      ServerClass.postgres.rawValue: try servers.readUsage().cpuSeconds[.postgres] ?? 0,
    ]
  }

  private static func difference(_ after: [String: Double], _ before: [String: Double]) -> [String: Double] {
    after.merging(before) { $0 - $1 }
  }
}

/// What all clients of a run send and count. Belongs to their event loop.
private final class XMPPLoad {
  private var senders: [XMPPConnection] = []
  private var isStopped = true
  private var isMeasuring = false
  private var turn = 0
  private(set) var sent = 0
  private(set) var underWay = 0
  private(set) var latency = LatencyHistogram()

  func add(_ connection: XMPPConnection, isSender: Bool) {
    if isSender { senders.append(connection) }
    connection.delivered = { [unowned self] id in delivered(id) }
  }

  func stop() {
    isStopped = true
    isMeasuring = false
  }

  func beginMeasuring() {
    latency = LatencyHistogram()
    isMeasuring = true
  }

  /// A closed loop: each sender goes on when a ping behind its messages was answered.
  func sendBehindPings(to users: [String], _ body: String, each count: Int) {
    isStopped = false
    for sender in senders {
      sender.ponged = { [unowned self, unowned sender] in sendSome(sender, to: users, body, count) }
      sendSome(sender, to: users, body, count)
    }
  }

  private func sendSome(_ sender: XMPPConnection, to users: [String], _ body: String, _ count: Int) {
    guard !isStopped else { return }
    for _ in 0..<count {
      turn += 1
      sent += 1
      sender.send(to: users[turn % users.count], id: Int64(turn), body: body, flushing: false)
    }
    sender.ping()
  }

  /// An open loop: each sender writes to a user of its own.
  func send(to users: [String], _ body: String, perSecond pace: Int, _ bound: NIOLoopBound<XMPPLoad>) {
    isStopped = false
    tick(users, body, pace, begun: .now(), due: 0, bound)
  }

  private func tick(
    _ users: [String], _ body: String, _ pace: Int, begun: NIODeadline, due: Int64, _ bound: NIOLoopBound<XMPPLoad>
  ) {
    guard !isStopped else { return }
    var due = due
    while true {
      let time = begun + .nanoseconds(due * 1_000_000_000 / Int64(pace))
      guard time <= .now() else { break }
      due += 1
      turn += 1
      underWay += 1
      let place = turn % senders.count
      senders[place].send(to: users[place], id: Int64(time.uptimeNanoseconds), body: body)
    }
    let next = due
    _ = bound.eventLoop.scheduleTask(in: .microseconds(500)) {
      bound.value.tick(users, body, pace, begun: begun, due: next, bound)
    }
  }

  private func delivered(_ id: Int64) {
    underWay -= 1
    guard isMeasuring else { return }
    latency.record(nanoseconds: UInt64(max(0, Int64(NIODeadline.now().uptimeNanoseconds) - id)))
  }
}
