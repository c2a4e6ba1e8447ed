import RelayClient

/// A part of the processes is lost, as with a region, and all devices that were connected there come back to the others
/// at once (docs/delivery.md, "Limits and close codes").
///
/// The pauses of devices are those of the client library. A process serves new connections one after the other, as fast
/// as its cores can shake hands; a device that waits longer than its time-out tries again.
struct ReconnectSimulation {
  private enum Event {
    case attempt(device: Int)
    case failed(device: Int)
    case connected(device: Int, process: Int)
    case sample
  }

  private struct Process {
    /// Connections, and those that are about to be.
    var places = 0
    /// When the last one that waits is served.
    var free = Duration.zero
  }

  private let settings: Settings
  private var random: SeededNumbers
  private var queue = EventQueue<Event>()
  private var processes: [Process]
  private var backoffs: [Int: Backoff] = [:]
  private var lostAt: [Int: Duration] = [:]
  private var connected: Int
  private var perSecond: [Int: Int] = [:]
  private var outcome = Outcome()

  private var isSteady: Bool { lostAt.isEmpty }
  private static let begin = Duration.seconds(10)

  /// - Throws: `ModelFailure`.
  init(_ settings: Settings) throws {
    try settings.check()
    self.settings = settings
    random = SeededNumbers(seed: settings.seed)
    let left = settings.processes - settings.lostProcesses
    let lost = settings.devices * settings.lostProcesses / settings.processes
    connected = settings.devices - lost
    processes = (0..<left).map { index in
      Process(places: (settings.devices - lost) / left + (index < (settings.devices - lost) % left ? 1 : 0))
    }
    for device in 0..<lost {
      lostAt[device] = Self.begin
      backoffs[device] = Backoff(first: .seconds(settings.firstPause), max: .seconds(settings.longestPause))
    }
    outcome.lost = lost
  }

  /// Runs it to its end.
  static func run(_ settings: Settings) throws -> Outcome {
    var simulation = try ReconnectSimulation(settings)
    return simulation.run()
  }

  private mutating func run() -> Outcome {
    // In the order of devices: a dictionary has another one in each run.
    for device in 0..<outcome.lost {
      let noticed = Self.begin + .seconds(settings.detectionSeconds * random.share())
      queue.add(.attempt(device: device), at: noticed + pause(of: device))
    }
    queue.add(.sample, at: .zero)
    while let event = queue.next(until: Self.begin + .seconds(settings.seconds)) {
      if case .sample = event {
        outcome.samples.append(Sample(seconds: queue.now.inSeconds, value: Double(connected)))
        queue.add(.sample, after: .milliseconds(500))
      } else {
        handle(event)
      }
      if isSteady, queue.now > Self.begin + .seconds((outcome.allAfter ?? 0) + 5) { break }
    }
    outcome.connected = connected
    outcome.apart = lostAt.count
    outcome.mostInASecond = perSecond.values.max() ?? 0
    return outcome
  }

  private mutating func pause(of device: Int) -> Duration { backoffs[device]?.next(using: &random) ?? .zero }

  private mutating func handle(_ event: Event) {
    switch event {
    case .attempt(let device): attempt(device)
    case .failed(let device):
      outcome.failures += 1
      queue.add(.attempt(device: device), after: pause(of: device))
    case .connected(let device, _):
      connected += 1
      perSecond[Int(queue.now.inSeconds), default: 0] += 1
      guard let lost = lostAt.removeValue(forKey: device) else { return }
      backoffs[device] = nil
      outcome.waits.add(queue.now - lost)
      if lostAt.isEmpty { outcome.allAfter = (queue.now - Self.begin).inSeconds }
    case .sample: return
    }
  }

  private mutating func attempt(_ device: Int) {
    outcome.attempts += 1
    // A balancer knows nothing of the load.
    let process = Int.random(in: 0..<processes.count, using: &random)
    let timeout = queue.now + .seconds(settings.timeoutSeconds)
    let start = max(queue.now, processes[process].free)
    let done = start + .seconds(settings.connectMillis / 1000 / settings.coresForConnections)
    guard processes[process].places < settings.connectionsMax, done <= timeout else {
      // Not accepted, or not in time: the connection waits until its device gives it up.
      return queue.add(.failed(device: device), at: timeout)
    }
    processes[process].places += 1
    processes[process].free = done
    queue.add(.connected(device: device, process: process), at: done)
  }
}
