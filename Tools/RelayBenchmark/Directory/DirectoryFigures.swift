/// The table in process, by one thread.
struct TableFigures: Sendable, Encodable {
  let entries: Int
  /// The share of its slots that are used.
  let load: Double
  let bytesPerEntry: Double
  /// Per second of CPU time, as all rates here: other work on the machine makes little difference.
  let insertsPerSecond: Double
  /// Medians of the rounds.
  let lookUpsPerSecond: Double
  /// The rate of the loop in C over the same memory.
  let bareLookUpsPerSecond: Double
  /// The ratio of the two within each round: a disturbance of the machine slows both.
  let ratio: Double

  private static let slotBytes = 12.0

  /// - Parameters:
  ///   - bytes: of its memory.
  ///   - lookUps: of each round.
  ///   - ownSeconds: of each round, at least one.
  ///   - bareSeconds: as many.
  init(
    entries: Int, bytes: Int, insertSeconds: Double, lookUps: Int, ownSeconds: [Double], bareSeconds: [Double]
  ) {
    self.entries = entries
    bytesPerEntry = Double(bytes) / Double(entries)
    load = Self.slotBytes / bytesPerEntry
    insertsPerSecond = Double(entries) / insertSeconds
    lookUpsPerSecond = Double(lookUps) / ownSeconds.median
    bareLookUpsPerSecond = Double(lookUps) / bareSeconds.median
    ratio = zip(bareSeconds, ownSeconds).map { $0 / $1 }.median
  }
}

/// From the start of a process until it can serve.
struct DirectoryStartFigures: Sendable, Encodable {
  /// Contacts in the database.
  let entries: Int
  /// Medians: without any contacts; with them, read from the database; and from the snapshot of the process before.
  let emptySeconds: Double
  let storeSeconds: Double
  let snapshotSeconds: Double
  /// Read from the database, in what it took longer than an empty start.
  let entriesPerSecond: Double
  let snapshotMiB: Double
  /// The resident bytes that the process has beyond an empty one.
  let bytesPerEntry: Double

  init(
    entries: Int, empty: [DirectoryStart.Sample], store: [DirectoryStart.Sample], snapshot: [DirectoryStart.Sample],
    snapshotBytes: Int
  ) {
    self.entries = entries
    emptySeconds = empty.map(\.seconds).median
    storeSeconds = store.map(\.seconds).median
    snapshotSeconds = snapshot.map(\.seconds).median
    // A moment at least: waiting for readiness is no finer.
    entriesPerSecond = Double(entries) / max(0.02, storeSeconds - emptySeconds)
    snapshotMiB = Double(snapshotBytes) / Double(1 << 20)
    let resident = { (samples: [DirectoryStart.Sample]) in samples.map { Double($0.residentBytes) }.median }
    bytesPerEntry = (resident(snapshot) - resident(empty)) / Double(entries)
  }
}

/// How long after a registration was sent another relay process finds the number.
struct FreshnessFigures: Sendable, Encodable {
  enum Place: String, Sendable, Encodable {
    case process = "another process"
    case peer = "a peer"
  }
  let place: Place
  let registrations: Int
  let p50Millis: Double
  let longestMillis: Double

  /// - Parameter times: one for each registration, at least one.
  init(_ place: Place, _ times: [Duration]) {
    self.place = place
    registrations = times.count
    p50Millis = times.map(\.millis).median
    longestMillis = times.map(\.millis).max() ?? 0
  }
}

extension [Double] {
  /// The middle one, or the mean of the two; 0 of none.
  var median: Double {
    guard !isEmpty else { return 0 }
    let ordered = sorted()
    return (ordered[(count - 1) / 2] + ordered[count / 2]) / 2
  }
}
