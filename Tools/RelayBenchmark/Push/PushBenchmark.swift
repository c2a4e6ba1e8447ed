import ChildProcesses
import Glibc
import NIOCore
import RelayCore

/// Measures the push gateway against providers that answer at once, late, or never.
struct PushBenchmark: Sendable {
  private static let connections = 32
  private static let queuedJobs = 10_000
  /// Devices of one request there: a homeserver names a few at most.
  private static let devicesEach = 4
  /// Files that a process has open besides.
  private static let otherFiles = 1000

  let site: PushSite
  let settings: BenchmarkSettings

  static func prepare() throws { try OpenFiles.allow(queuedJobs / devicesEach + otherFiles) }

  /// - Throws: `BenchmarkFailure` when a push failed, or a provider took other than what was answered.
  func run() async throws -> PushFigures {
    let providers = try await site.providers("providers")
    let gateway = try await site.gateway("gateway", providers: providers)
    var rates: [PushRateFigures] = []
    for kind in WakeProvider.allCases {
      note("Measuring pushes to \(kind.title) ...")
      let before = try await providers.taken()
      let result = try await load(kind, providers, gateway)
      let taken = try await providers.taken() - before
      guard taken == result.successes else {
        throw BenchmarkFailure("\(kind.title): \(result.successes) pushes were answered, \(taken) taken")
      }
      rates.append(PushRateFigures(kind, result))
    }
    await gateway.process.stop()
    return PushFigures(
      connections: Self.connections, rates: rates, queue: try await queue(), isolation: try await isolation(providers))
  }

  /// - Throws: also when a push failed.
  private func load(
    _ kind: WakeProvider, _ providers: PushSite.Providers, _ gateway: PushSite.Gateway
  ) async throws -> LoadResult {
    let devices = PushedDevices(webPushPort: providers.https).json(kind)
    let generator = LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds), pacePerSecond: nil)
    let workloads = try (0..<Self.connections).map { try NotifyWorkload(devices, connection: $0) }
    let result = try await generator.run(workloads, port: gateway.port, readUsage: { _ in try gateway.readUsage() })
    guard result.failures.isEmpty, result.measured > 0 else {
      let list = result.failures.map { "\($0.value) times \($0.key)" }.sorted().joined(separator: "; ")
      throw BenchmarkFailure("\(kind.title): \(list.isEmpty ? "nothing was answered" : list)")
    }
    return result
  }

  // MARK: Memory

  /// Measures the cost of pushes that wait for a provider: it answers each after five seconds.
  private func queue() async throws -> PushQueueFigures {
    note("Measuring \(Self.queuedJobs) queued pushes ...")
    let late = try await site.providers("providers-late", pause: .seconds(5))
    let gateway = try await site.gateway("gateway-queue", providers: late)
    let empty = try ProcessUsage.residentBytes(gateway.process.pid)
    let devices = PushedDevices(webPushPort: late.https)
    let all = (0..<Self.devicesEach).map { devices.json(.fcm, $0) }.joined(separator: ",")
    let workloads = try (0..<Self.queuedJobs / Self.devicesEach).map { try NotifyWorkload(all, connection: $0) }
    let requests = try await HeldRequests(workloads, port: gateway.port)
    defer { requests.close() }
    // Within one request each device begins a second behind the one before it.
    let held = try await reached(
      #"relay_push_held{app="\#(WakeProvider.fcm.appID)",provider="fcm"}"#, at: gateway, within: .seconds(40)
    ) { $0 >= Double(Self.queuedJobs) * 0.99 }
    let full = try ProcessUsage.residentBytes(gateway.process.pid)
    await gateway.process.stop(SIGKILL)
    return PushQueueFigures(jobs: Int(held), connections: workloads.count, empty: empty, full: full)
  }

  // MARK: Isolation

  /// A provider that takes connections and is silent, beside one that answers.
  private func isolation(_ providers: PushSite.Providers) async throws -> PushIsolationFigures {
    note("Measuring FCM beside a dead APNs ...")
    let dead = try await site.providers("providers-dead", pause: .seconds(3600))
    let gateway = try await site.gateway("gateway-isolation", providers: providers, apns: dead)
    let alone = try await load(.fcm, providers, gateway)
    let device = PushedDevices(webPushPort: providers.https).json(.apns)
    let workloads = try (0..<Self.connections).map { try NotifyWorkload(device, connection: $0) }
    let begun = ContinuousClock.now
    let requests = try await HeldRequests(workloads, port: gateway.port)
    defer { requests.close() }
    async let halted = haltedAfter(begun, at: gateway)
    let beside = try await loadBeside(providers, gateway)
    let seconds = try await halted / .seconds(1)
    await gateway.process.stop(SIGKILL)
    return PushIsolationFigures(
      secondsToHalt: seconds, alone: PushRateFigures(.fcm, alone), beside: PushRateFigures(.fcm, beside))
  }

  /// The same load with other events: those of before are answered from memory.
  private func loadBeside(_ providers: PushSite.Providers, _ gateway: PushSite.Gateway) async throws -> LoadResult {
    let devices = PushedDevices(webPushPort: providers.https).json(.fcm, 1)
    let generator = LoadGenerator(
      warmUp: .zero, window: .seconds(settings.seconds), pacePerSecond: nil)
    let workloads = try (0..<Self.connections).map { try NotifyWorkload(devices, connection: $0) }
    let result = try await generator.run(workloads, port: gateway.port, readUsage: { _ in try gateway.readUsage() })
    guard result.failures.isEmpty, result.measured > 0 else {
      throw BenchmarkFailure("pushes to FCM failed beside a dead APNs")
    }
    return result
  }

  private func haltedAfter(_ begun: ContinuousClock.Instant, at gateway: PushSite.Gateway) async throws -> Duration {
    let series = #"relay_push_halted{app="\#(WakeProvider.apns.appID)",provider="apns"}"#
    _ = try await reached(series, at: gateway, within: .seconds(90)) { $0 >= 1 }
    return .now - begun
  }

  private func reached(
    _ series: String, at gateway: PushSite.Gateway, within limit: Duration, _ isEnough: (Double) -> Bool
  ) async throws -> Double {
    let deadline = ContinuousClock.now + limit
    var last = 0.0
    while .now < deadline {
      last = try await gateway.gauge(series) ?? 0
      if isEnough(last) { return last }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw BenchmarkFailure("\(series) came to \(last) only")
  }
}
