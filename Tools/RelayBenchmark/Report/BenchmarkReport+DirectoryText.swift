extension BenchmarkReport {
  /// Empty where no table was measured.
  var tableTable: [String] {
    guard !tables.isEmpty else { return [] }
    let header = [
      "table, entries", "used slots", "bytes each", "M inserts/CPU s", "M look-ups/CPU s", "C over the same memory",
      "share",
    ]
    return [""]
      + Self.table(
        header,
        tables.map { table in
          [
            "\(table.entries)", Self.number(table.load, 2), Self.number(table.bytesPerEntry, 1),
            Self.number(table.insertsPerSecond / 1e6, 1), Self.number(table.lookUpsPerSecond / 1e6, 1),
            Self.number(table.bareLookUpsPerSecond / 1e6, 1), Self.number(table.ratio, 2),
          ]
        })
  }

  /// Empty where nobody was looked up.
  var lookUpTable: [String] {
    let rows = scenarios.compactMap { figures in
      figures.lookUps.map { lookUps in
        [
          figures.title, "\(lookUps.entries)", Self.number(lookUps.tokensPerSecond, 0),
          Self.number(lookUps.cpuSecondsPerMillion, 3), Self.number(lookUps.tokensPerCPUSecond / 1e6, 2),
          Self.number(lookUps.hash.tokensPerSecond, 0), Self.number(lookUps.hash.serverCPUSecondsPerMillion, 3),
          Self.number(lookUps.hash.clientCPUSecondsPerMillion, 3),
          Self.number(lookUps.hash.tokensPerCPUSecond / 1e6, 2), Self.number(lookUps.ratio, 2),
        ]
      }
    }
    guard !rows.isEmpty else { return [] }
    let header = [
      "contacts", "directory", "tokens/s", "CPU s/million", "M tokens/CPU s", "HMGET tokens/s", "server CPU s/million",
      "client CPU s/million", "M tokens/CPU s", "ratio",
    ]
    return [""] + Self.table(header, rows)
  }

  /// Empty where no relay was started for it.
  var startTable: [String] {
    guard !directoryStarts.isEmpty else { return [] }
    let header = [
      "directory at start, entries", "s, empty", "s, from PostgreSQL", "M entries/s", "s, from the snapshot",
      "snapshot MiB", "resident bytes each",
    ]
    let starts = Self.table(
      header,
      directoryStarts.map { start in
        [
          "\(start.entries)", Self.number(start.emptySeconds, 2), Self.number(start.storeSeconds, 2),
          Self.number(start.entriesPerSecond / 1e6, 2), Self.number(start.snapshotSeconds, 2),
          Self.number(start.snapshotMiB, 0), Self.number(start.bytesPerEntry, 1),
        ]
      })
    let seen = Self.table(
      ["a registration is found at", "count", "p50 ms", "longest ms"],
      freshness.map { place in
        [
          place.place.rawValue, "\(place.registrations)", Self.number(place.p50Millis, 0),
          Self.number(place.longestMillis, 0),
        ]
      })
    return [""] + starts + [""] + seen
  }
}
