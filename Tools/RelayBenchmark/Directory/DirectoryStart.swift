import ChildProcesses
import Foundation

/// How long a relay takes to start over a large directory, from the database and from its own snapshot, and how soon
/// what changes then is seen.
struct DirectoryStart: Sendable {
  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  /// One start.
  struct Sample: Sendable {
    /// Until the relay can serve.
    let seconds: Double
    /// Memory of the process, then.
    let residentBytes: Int
  }

  /// The source of a relay's directory, as the relay says itself.
  private enum Source: String {
    case store
    case snapshot = "file"
  }

  private static let name = "delta"
  /// A snapshot is written, and on the disk, before a process ends.
  private static let ending = Duration.seconds(120)

  /// - Throws: `BenchmarkFailure` when a relay that can serve has not all entries, has them from elsewhere, or leaves
  ///   no snapshot.
  func run() async throws -> (starts: [DirectoryStartFigures], freshness: [FreshnessFigures]) {
    note("Measuring starts over an empty directory ...")
    let directory = try await LargeDirectory(Self.name, at: servers)
    let empty = try await start(directory, entries: 0, from: .store)
    var starts: [DirectoryStartFigures] = []
    var present = 0
    for entries in settings.directoryEntries {
      note("Making a directory of \(entries) contacts ...")
      try await directory.fill(from: present, to: entries)
      present = entries
      note("Measuring starts over \(entries) contacts ...")
      let store = try await start(directory, entries: entries, from: .store)
      let snapshot = try await start(directory, entries: entries, from: .snapshot)
      starts.append(
        DirectoryStartFigures(
          entries: entries, empty: empty, store: store, snapshot: snapshot,
          snapshotBytes: try snapshotBytes(directory.home)))
    }
    note("Measuring when a registration is seen ...")
    let freshness = Freshness(servers: servers, registrations: settings.registrations)
    return (starts, try await freshness.run(directory, entries: present))
  }

  private func start(
    _ directory: LargeDirectory, entries: Int, from source: Source
  ) async throws -> [Sample] {
    var samples: [Sample] = []
    for round in 0..<settings.directoryStarts {
      switch source {
      case .store: try directory.removeSnapshot()
      case .snapshot: _ = try snapshotBytes(directory.home)
      }
      // A log of its own for each.
      let title = "\(Self.name)-\(entries)-\(source)-\(round)"
      let begun = ContinuousClock.now
      let process = try await directory.serve(as: title, at: directory.home.ports, entries: entries)
      let seconds = (ContinuousClock.now - begun) / .seconds(1)
      samples.append(Sample(seconds: seconds, residentBytes: try ProcessUsage.residentBytes(process.pid)))
      try await waitUntil("\(title): the directory", while: process) {
        try demandLoaded(entries, from: source, log: workshop.log(of: title))
      }
      let exit = await process.stop(grace: Self.ending)
      guard exit == .code(0) else { throw BenchmarkFailure("\(title): relay serve: \(exit)") }
    }
    return samples
  }

  /// Holds what was measured against what the relay says it did.
  private func demandLoaded(_ entries: Int, from source: Source, log: URL) throws {
    // ... notice relay: entries=1000064 from=file milliseconds=321 [Directory] directory loaded
    let words = try LogTail.lines(1000, of: log).last { $0.contains("directory loaded") }?.split(separator: " ") ?? []
    let value = { (key: String) in words.first { $0.hasPrefix(key) }.map { String($0.dropFirst(key.count)) } }
    guard let count = value("entries=").flatMap({ Int($0) }), count >= entries, value("from=") == source.rawValue else {
      throw BenchmarkFailure("\(entries) entries were not loaded from the \(source)")
    }
  }

  /// - Throws: `BenchmarkFailure` when there is none.
  private func snapshotBytes(_ home: RelayOperator) throws -> Int {
    guard FileManager.default.fileExists(atPath: home.snapshot),
      let bytes = try FileManager.default.attributesOfItem(atPath: home.snapshot)[.size] as? Int, bytes > 0
    else { throw BenchmarkFailure("\(home.name) left no snapshot") }
    return bytes
  }
}
