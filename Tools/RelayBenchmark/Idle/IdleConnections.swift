import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// Measures the cost of connected devices that get no messages, how fast they connect, and the time until all are
/// back after the relay died.
///
/// The relay is a process of alpha of its own, fresh for each measurement.
struct IdleConnections: Sendable {
  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  /// Files that a process has open besides: stores, listeners, peers, the machinery.
  static let otherFiles = 1000
  /// A process is quiet by then: what it does once is done.
  private static let settling = Duration.seconds(3)
  /// As long as the longest round but one: in it each session is compared with its account once, and a tenth of the
  /// mailboxes is read (`messages.poll-steady-seconds`).
  private static let idleSeconds = 60.0

  /// To be called first: says what cannot be measured before anything else was.
  static func prepare(_ settings: BenchmarkSettings) throws {
    try OpenFiles.allow(settings.idleConnections + otherFiles)
  }

  /// - Returns: plain, then over TLS.
  func run(_ devices: IdleDevices, _ note: (String) -> Void) async throws -> [IdleFigures] {
    note("Measuring \(settings.idleConnections) idle connections ...")
    let plain = try await measure(devices, certificate: nil)
    note("Measuring \(settings.idleConnections) idle connections over TLS ...")
    return [plain, try await measure(devices, certificate: try await IdleCertificate(for: "idle", in: workshop))]
  }

  private func measure(_ devices: IdleDevices, certificate: IdleCertificate?) async throws -> IdleFigures {
    let ports = try await RelayOperator.Ports.free()
    let process = try await serve(at: ports, certificate)
    try await Task.sleep(for: Self.settling)
    let (empty, cpuBefore) = (try ProcessUsage.residentBytes(process.pid), try cpuSeconds(process))
    let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
    let begun = ContinuousClock.now
    let fleet = try await IdleFleet(
      devices, to: SocketTarget(port: ports.client, tls: try certificate?.clientContext()), on: loops)
    do {
      try await fleet.allOpen(opened: devices.count, within: limit)
      let connecting = ContinuousClock.now - begun
      let cpu = try cpuSeconds(process) - cpuBefore
      try await Task.sleep(for: Self.settling)
      guard fleet.openedCount == devices.count else { throw BenchmarkFailure("an idle WebSocket ended by itself") }
      let full = try ProcessUsage.residentBytes(process.pid)
      let idle = try await idle(process, devices.count)
      guard fleet.openedCount == devices.count else { throw BenchmarkFailure("an idle WebSocket ended by itself") }
      let returned = try await readmit(fleet, devices, after: process, at: ports, certificate)
      try await fleet.stop()
      return IdleFigures(
        isTLS: certificate != nil, connections: devices.count, emptyResidentMiB: Double(empty) / Double(1 << 20),
        fullResidentMiB: Double(full) / Double(1 << 20),
        kibibytesEach: Double(full - empty) / Double(1 << 10) / Double(devices.count),
        connectsPerSecond: Double(devices.count) / (connecting / .seconds(1)),
        cpuSecondsPerThousandConnects: cpu / Double(devices.count) * 1000, idleMillisEach: idle.cpu,
        idleStatementsPerMinute: idle.statementsPerMinute,
        secondsToServe: returned.serving / .seconds(1), secondsToAllConnected: returned.connected / .seconds(1))
    } catch {
      try await fleet.stop()
      throw error
    }
  }

  /// Waits while nothing comes but pings.
  private func idle(_ process: ChildProcess, _ connections: Int) async throws
    -> (cpu: IdleCPU, statementsPerMinute: Double?)
  {
    let statements = try await servers.postgres.countStatements()
    let (stores, relay) = (try servers.readUsage(), try cpuSeconds(process))
    let began = ContinuousClock.now
    try await Task.sleep(for: .seconds(Self.idleSeconds))
    let seconds = (ContinuousClock.now - began) / .seconds(1)
    let cpu = IdleCPU(
      relay: try cpuSeconds(process) - relay, stores: try servers.readUsage() - stores, seconds: seconds,
      connections: connections)
    let last = try await servers.postgres.countStatements()
    return (cpu, statements.flatMap { first in last.map { Double($0 - first) * 60 / seconds } })
  }

  /// Kills the process, starts another in its place, and waits until all devices are connected to it.
  private func readmit(
    _ fleet: IdleFleet, _ devices: IdleDevices, after process: ChildProcess, at ports: RelayOperator.Ports,
    _ certificate: IdleCertificate?
  ) async throws -> (serving: Duration, connected: Duration) {
    let killed = ContinuousClock.now
    await process.stop(SIGKILL)
    let successor = try await serve(at: ports, certificate)
    let serving = ContinuousClock.now - killed
    try await fleet.allOpen(opened: 2 * devices.count, within: limit)
    let connected = ContinuousClock.now - killed
    // At once: nobody waits for 10,000 orderly ends.
    await successor.stop(SIGKILL)
    return (serving, connected)
  }

  private func serve(at ports: RelayOperator.Ports, _ certificate: IdleCertificate?) async throws -> ChildProcess {
    var variables = ["RELAY_CLIENT_CONNECTIONS_MAX": "\(settings.idleConnections + Self.otherFiles)"]
    variables.merge(certificate?.settings ?? [:]) { $1 }
    return try await servers.alpha.serve(as: "alpha-idle", at: ports, settings: variables)
  }

  private func cpuSeconds(_ process: ChildProcess) throws -> Double {
    try ProcessUsage.cpuSecondsOfProcess(process.pid)
  }

  private var limit: Duration { .seconds(60) + .milliseconds(20) * settings.idleConnections }
}

/// A certificate of the relay's, made for one run.
struct IdleCertificate: Sendable {
  private let chain: String
  private let key: String

  /// - Parameter part: of the run, which has one.
  init(for part: String, in workshop: Workshop) async throws {
    let folder = try workshop.makeFolder("client-tls-\(part)")
    chain = folder.appending(path: "chain.pem").path
    key = folder.appending(path: "key.pem").path
    _ = try await workshop.run(
      "openssl req",
      [
        "/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout", key, "-out", chain, "-days", "1", "-subj", "/CN=localhost", "-addext",
        "subjectAltName=IP:127.0.0.1",
      ], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
  }

  var settings: [String: String] { ["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key] }

  /// One for all devices.
  func clientContext() throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(chain))
    configuration.applicationProtocols = ["http/1.1"]
    return try NIOSSLContext(configuration: configuration)
  }
}
