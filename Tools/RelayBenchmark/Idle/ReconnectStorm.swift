import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOPosix

/// Measures what it costs when all devices of a process come back over TLS within the window of a drain, and how many
/// of them can resume their sessions.
///
/// Two processes of alpha serve, under one certificate. The first drains, and its devices go to the second. Then they
/// lose their connections to that one, as by a network's fault, and come back to it: once with their tickets, and once
/// without.
struct ReconnectStorm: Sendable {
  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  private static let settling = Duration.seconds(3)
  /// Pings are not what is measured here: few of them, and relays that do without.
  private static let (pingSeconds, silenceSeconds) = (600, 3600)

  func run(_ devices: IdleDevices, _ note: (String) -> Void) async throws -> [StormFigures] {
    note("Measuring \(devices.count) devices that reconnect over TLS ...")
    let certificate = try await IdleCertificate(for: "storm", in: workshop)
    let (firstPorts, secondPorts) = (try await RelayOperator.Ports.free(), try await RelayOperator.Ports.free())
    let first = try await serve("alpha-storm-first", at: firstPorts, certificate)
    let second = try await serve("alpha-storm-second", at: secondPorts, certificate)
    let tickets = try DeviceTickets()
    let fleet = try await IdleFleet(
      devices, to: SocketTarget(port: firstPorts.client), tickets: tickets, pingSeconds: Self.pingSeconds,
      on: Array(MultiThreadedEventLoopGroup.singleton.makeIterator()))
    do {
      try await fleet.allOpen(opened: devices.count, within: limit)
      note("All are connected, and lose their connections ...")
      try await fleet.turn(to: SocketTarget(port: secondPorts.client))
      try await Task.sleep(for: Self.settling)
      let waves = Waves(fleet: fleet, tickets: tickets, process: second, devices: devices.count, limit: limit)
      var figures = [try await waves.run(.drained, over: settings.stormSeconds) { first.send(SIGTERM) }]
      note(figures[0].text)
      for way in [StormFigures.Way.resuming, .anew] {
        tickets.offer(way == .resuming)
        try await Task.sleep(for: Self.settling)
        figures.append(
          try await waves.run(way, over: settings.stormSeconds) {
            try await fleet.cut(over: .seconds(settings.stormSeconds))
          })
        note(figures[figures.endIndex - 1].text)
      }
      try await fleet.stop()
      // At once: nobody waits for 10,000 orderly ends.
      for process in [first, second] { await process.stop(SIGKILL) }
      return figures
    } catch {
      try await fleet.stop()
      throw error
    }
  }

  private func serve(
    _ title: String, at ports: RelayOperator.Ports, _ certificate: IdleCertificate
  ) async throws -> ChildProcess {
    var variables = certificate.settings
    variables["RELAY_CLIENT_CONNECTIONS_MAX"] = "\(settings.idleConnections + IdleConnections.otherFiles)"
    variables["RELAY_CLIENT_WEBSOCKET_IDLE_SECONDS"] = "\(Self.silenceSeconds)"
    variables["RELAY_DRAIN_SECONDS"] = "\(settings.stormSeconds)"
    return try await servers.alpha.serve(as: title, at: ports, settings: variables)
  }

  private var limit: Duration { .seconds(60 + settings.stormSeconds) + .milliseconds(20) * settings.idleConnections }
}

/// One after the other, each until all devices are back at `process`.
private struct Waves {
  let fleet: IdleFleet
  let tickets: DeviceTickets
  let process: ChildProcess
  let devices: Int
  let limit: Duration

  /// - Parameter begin: has all connections end within `window` seconds.
  func run(
    _ way: StormFigures.Way, over window: Int, _ begin: () async throws -> Void
  ) async throws -> StormFigures {
    guard fleet.openCount == devices else { throw BenchmarkFailure("an idle WebSocket ended by itself") }
    let (before, opened) = (try ProcessUsage.cpuSecondsOfProcess(process.pid), fleet.openedCount)
    _ = tickets.takeCounts()
    let began = ContinuousClock.now
    try await begin()
    try await fleet.allOpen(opened: opened + devices, within: limit)
    let passed = ContinuousClock.now - began
    let counts = tickets.takeCounts()
    let cpu = try ProcessUsage.cpuSecondsOfProcess(process.pid) - before
    return StormFigures(
      way: way, devices: devices, windowSeconds: window, handshakes: counts.handshakes,
      resumedShare: Double(counts.resumed) / Double(max(1, counts.handshakes)),
      cpuMillisEach: cpu * 1000 / Double(devices), secondsToAllBack: passed / .seconds(1))
  }
}

/// The cost of devices that come back all together.
struct StormFigures: Sendable, Encodable {
  enum Way: String, Sendable, Encodable {
    case drained
    case resuming
    case anew

    var title: String {
      switch self {
      case .drained: "to another process, with tickets of the drained one"
      case .resuming: "to the same process, with its tickets"
      case .anew: "to the same process, without tickets"
      }
    }
  }

  let way: Way
  let devices: Int
  let windowSeconds: Int
  let handshakes: Int
  /// 0...1: handshakes that resumed a session.
  let resumedShare: Double
  /// CPU of the process that they come back to, for each device: the handshake, the look-up of the account and the
  /// check of the password.
  let cpuMillisEach: Double
  /// From the beginning of the window until every device is connected.
  let secondsToAllBack: Double

  /// A line for those who wait for the rest.
  var text: String {
    "Back, \(way.title): \(devices) after \(Int(secondsToAllBack)) s, \(Int((resumedShare * 100).rounded())) % resumed."
  }
}
