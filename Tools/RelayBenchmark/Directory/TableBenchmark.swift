import CTableProbe
import Directory
import RelayCore

/// Look-ups in the table in which each relay keeps the directory, by one thread in this process, beside a bare loop in
/// C over the very same memory.
struct TableBenchmark: Sendable {
  let settings: BenchmarkSettings

  /// As the largest address books are asked for.
  private static let requestTokens = 5000
  /// Entries of one write: as a relay's follower makes them.
  private static let writeEntries = 10_000
  /// More than the table itself needs: what is asked of it, and the rest of the program.
  private static let otherBytes = 256 << 20

  /// How full a table is.
  private enum Load: String, CaseIterable, Sendable {
    /// As it is after it was laid out for its entries.
    case roomy
    /// As it is before it is laid out anew.
    case full

    /// The number of entries to lay a table out for, so that `entries` make it as full. A table is laid out at 0.6
    /// and grows at 0.75.
    func room(for entries: Int) -> Int { self == .roomy ? entries : entries * 4 / 5 + 16 }
  }

  /// - Returns: two for each size that the machine has the memory for: as laid out, and at its fullest.
  /// - Throws: `BenchmarkFailure` when there is memory for none, or a look-up found other than it had to.
  func run() async throws -> [TableFigures] {
    var figures: [TableFigures] = []
    for entries in settings.tableEntries {
      // 20 bytes an entry where it is roomiest. A quarter of what is free is left to others.
      let bytes = entries * 20 + Self.otherBytes
      let allowed = try ProcessUsage.availableBytes() / 4 * 3
      guard bytes < allowed else {
        note("A table of \(entries) entries is left out: it needs \(bytes >> 20) MiB of \(allowed >> 20) at most.")
        continue
      }
      note("Measuring a table of \(entries) entries ...")
      for load in Load.allCases {
        figures.append(
          try await Cancellation.watch { cancellation in
            try await onOwnThread { [self] in try measure(entries, load, cancellation) }
          })
      }
    }
    guard !figures.isEmpty else { throw BenchmarkFailure("there is no memory for a table") }
    return figures
  }

  private func measure(_ entries: Int, _ load: Load, _ cancellation: Cancellation) throws -> TableFigures {
    let table = try Self.makeTable(roomFor: load.room(for: entries))
    let insertSeconds = try Self.fill(table, entries, cancellation)
    let queries = TableQueries(settings.tableQueries, of: entries)
    guard table.count == entries else {
      throw BenchmarkFailure("the table has \(table.count) entries after \(entries) were added")
    }
    var own: [Double] = []
    var bare: [Double] = []
    // The first round only warms up. Each goes first in turn.
    for round in 0...settings.tableRounds {
      try cancellation.check()
      if !round.isMultiple(of: 2) { bare.append(try Self.time(queries, round, "C") { Self.askBare(table, $0) }) }
      own.append(try Self.time(queries, round, "the table") { Self.ask(table, $0) })
      if round.isMultiple(of: 2) { bare.append(try Self.time(queries, round, "C") { Self.askBare(table, $0) }) }
    }
    return TableFigures(
      entries: entries, bytes: table.byteCount, insertSeconds: insertSeconds, lookUps: queries.tokens.count,
      ownSeconds: Array(own.dropFirst()), bareSeconds: Array(bare.dropFirst()))
  }

  private static func makeTable(roomFor count: Int) throws(BenchmarkFailure) -> TokenTable {
    do throws(TokenTable.OutOfMemory) {
      return try TokenTable(roomFor: count)
    } catch {
      throw BenchmarkFailure("a table for \(count) entries: there is no such memory")
    }
  }

  /// - Returns: CPU seconds of the writes alone, the first touch of each page among them.
  private static func fill(_ table: TokenTable, _ entries: Int, _ cancellation: Cancellation) throws -> Double {
    var seconds = 0.0
    var first = 0
    while first < entries {
      try cancellation.check()
      let changes = (first..<min(first + writeEntries, entries)).map { index in
        let number = UInt64(index)
        return TokenChange(
          NumberedTokens.token(number),
          TokenEntry(relay: TableQueries.relay(of: number), supportsSMS: false, voice: index.isMultiple(of: 2)))
      }
      let begun = ProcessUsage.cpuSecondsOfThread()
      try table.apply(changes)
      seconds += ProcessUsage.cpuSecondsOfThread() - begun
      first += changes.count
    }
    return seconds
  }

  /// - Returns: CPU seconds of `ask`.
  /// - Throws: `BenchmarkFailure` when it found other than it had to.
  private static func time(
    _ queries: TableQueries, _ round: Int, _ who: String, _ ask: ([ContactToken]) -> TableQueries.Found
  ) throws -> Double {
    let begun = ProcessUsage.cpuSecondsOfThread()
    let found = ask(queries.tokens)
    let seconds = ProcessUsage.cpuSecondsOfThread() - begun
    guard found == queries.expected else {
      throw BenchmarkFailure(
        "round \(round): \(who) found \(found.count) tokens, \(queries.expected.count) are there, or other entries")
    }
    return seconds
  }

  private static func ask(_ table: TokenTable, _ tokens: [ContactToken]) -> TableQueries.Found {
    var found = TableQueries.Found()
    let tokens = tokens.span
    var first = 0
    while first < tokens.count {
      let end = min(first + requestTokens, tokens.count)
      table.lookUp(tokens.extracting(first..<end)) { _, entry in
        found.count += 1
        found.relays += entry.relay
      }
      first = end
    }
    return found
  }

  private static func askBare(_ table: TokenTable, _ tokens: [ContactToken]) -> TableQueries.Found {
    // The layout that the C declaration repeats.
    precondition(MemoryLayout<ContactToken>.stride == MemoryLayout<relay_probe_token>.stride)
    var found = TableQueries.Found()
    table.withRawSlots { slots, capacity, secret in
      let raw = relay_probe_table(slots: slots, capacity: UInt64(capacity), secret: secret)
      tokens.withUnsafeBytes { bytes in
        let tokens = bytes.assumingMemoryBound(to: relay_probe_token.self)
        var first = 0
        while first < tokens.count {
          let end = min(first + requestTokens, tokens.count)
          let some = relay_probe(raw, tokens.baseAddress.map { $0 + first }, end - first)
          found.count += Int(some.count)
          found.relays += Int(some.relays)
          first = end
        }
      }
    }
    return found
  }
}
