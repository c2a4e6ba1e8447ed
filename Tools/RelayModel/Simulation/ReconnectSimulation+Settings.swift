extension ReconnectSimulation {
  struct Settings: Sendable, Equatable {
    var seed: UInt64 = 1
    var devices = 80_000
    var processes = 10
    var lostProcesses = 5
    /// `client.connections-max`.
    var connectionsMax = 20_000
    /// Cores of a process that are left for new connections.
    var coresForConnections = 0.5
    /// CPU milliseconds of a new connection.
    var connectMillis = 0.921
    /// Devices notice the loss within this time: 0 where their connections are reset.
    var detectionSeconds = 0.0
    /// For so long a device waits for a connection.
    var timeoutSeconds = 5.0
    /// The client library's; 0 and 0 are a client without pauses.
    var firstPause = 1.0
    var longestPause = 60.0
    /// How long the simulation goes on at most.
    var seconds = 1800.0

    /// - Throws: `ModelFailure` that names the value.
    func check() throws {
      guard (1...5_000_000).contains(devices) else { throw ModelFailure("--devices goes from 1 to 5000000") }
      guard (2...10_000).contains(processes), (1..<processes).contains(lostProcesses) else {
        throw ModelFailure("--processes goes from 2 to 10000, and some of them are left")
      }
      guard connectionsMax > 0, coresForConnections > 0, connectMillis > 0, timeoutSeconds > 0 else {
        throw ModelFailure("room, cores, CPU and time-out of a connection are above 0")
      }
      guard detectionSeconds >= 0, firstPause >= 0, longestPause >= 0, seconds > 0, seconds <= 86_400 else {
        throw ModelFailure("pauses are 0 or more, and the simulation ends within a day")
      }
    }
  }

  struct Outcome: Sendable, Equatable {
    /// Devices whose process is gone.
    var lost = 0
    var connected = 0
    /// Devices without a connection at the end.
    var apart = 0
    var attempts = 0
    var failures = 0
    /// Connections that were made in the busiest second.
    var mostInASecond = 0
    /// In seconds from the loss; nil: some are without a connection.
    var allAfter: Double?
    var waits = Waits()
    /// Connected devices, twice a second.
    var samples: [Sample] = []
  }
}
