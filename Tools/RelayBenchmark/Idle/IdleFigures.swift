/// The cost of connections that do nothing.
struct IdleFigures: Sendable, Encodable {
  let isTLS: Bool
  let connections: Int
  /// Resident memory of the relay: before the first connection, and with all of them open.
  let emptyResidentMiB: Double
  let fullResidentMiB: Double
  /// The difference, for each connection.
  let kibibytesEach: Double
  /// The bound that the figure is to stay below.
  let aimKibibytesEach: Double
  let connectsPerSecond: Double
  /// CPU seconds of the relay, for each 1,000 connections opened.
  let cpuSecondsPerThousandConnects: Double
  /// From the relay's death until its successor could serve, and until all devices were connected again.
  let secondsToServe: Double
  let secondsToAllConnected: Double
}
