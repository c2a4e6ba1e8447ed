import RelayCore

struct PushFigures: Sendable, Encodable {
  let connections: Int
  let rates: [PushRateFigures]
  let queue: PushQueueFigures
  let isolation: PushIsolationFigures
}

/// Notifications with one device each, in a closed loop.
struct PushRateFigures: Sendable, Encodable {
  let provider: WakeProvider
  /// Answered within the window, each taken by the provider.
  let pushes: Int
  let seconds: Double
  let perSecond: Double
  let p50Millis: Double
  let p99Millis: Double
  /// CPU seconds of the relay.
  let cpuSecondsPerThousand: Double
  let perCPUSecond: Double

  init(_ kind: WakeProvider, _ result: LoadResult) {
    provider = kind
    pushes = result.measured
    seconds = result.seconds
    perSecond = result.perSecond
    p50Millis = result.latency.quantile(0.50).millis
    p99Millis = result.latency.quantile(0.99).millis
    let cpu = result.usage.cpuSeconds.values.reduce(0, +)
    cpuSecondsPerThousand = cpu / Double(max(1, result.measured)) * 1000
    perCPUSecond = cpu > 0 ? Double(result.measured) / cpu : 0
  }
}

/// The cost of pushes that wait.
struct PushQueueFigures: Sendable, Encodable {
  let jobs: Int
  /// Requests that hold them open.
  let connections: Int
  let emptyResidentMiB: Double
  let fullResidentMiB: Double
  let kibibytesEach: Double

  init(jobs: Int, connections: Int, empty: Int, full: Int) {
    self.jobs = jobs
    self.connections = connections
    emptyResidentMiB = Double(empty) / Double(1 << 20)
    fullResidentMiB = Double(full) / Double(1 << 20)
    kibibytesEach = Double(full - empty) / Double(1 << 10) / Double(max(1, jobs))
  }
}

/// A dead provider beside one that answers.
struct PushIsolationFigures: Sendable, Encodable {
  /// From the first push to the dead one until no more is sent to it.
  let secondsToHalt: Double
  let alone: PushRateFigures
  /// While pushes to the dead one are under way.
  let beside: PushRateFigures
}
