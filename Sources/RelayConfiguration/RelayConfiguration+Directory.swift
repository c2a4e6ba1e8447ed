package import RelayCore

extension RelayConfiguration {
  package struct Directory: Sendable, Equatable {
    package let allowance: LookUpAllowance
    package let refusesEnumeration: Bool
    /// A file.
    package let snapshotPath: String
    /// Whether look-ups are offered that do not tell what is looked for.
    package let isOblivious: Bool
    /// The part that this process holds for others to ask; nil: it holds the whole directory, or nothing of it.
    package let partition: DirectoryPartition?
    package let host: String
    /// The port at which others ask for the part. 0 takes any free one.
    package let port: Int?
    /// nil: HTTP as it is.
    package let tls: TLS?
    /// The processes that hold the parts, each part once or more; nil: this process asks no others.
    package let parts: [PartLocation]?
    /// A PEM file of the CAs that their certificates may come from; nil: the system's.
    package let authority: String?

    /// How soon a new account's address books are there; what it may ask for meanwhile is the operator's to say.
    private static let budgetFirstDays = 10

    init(_ keys: inout ConfigurationReader) {
      allowance = LookUpAllowance(
        first: keys.value(
          "directory.budget.first", .whole(1...1_000_000_000), default: "20000",
          "Different contacts that an account may ask for in its first ten days; asking for them again costs nothing."),
        firstDays: Self.budgetFirstDays,
        perDay: keys.value(
          "directory.budget.per-day", .whole(0...1_000_000_000), default: "2000",
          "Further ones that it may ask for on each day after them."))
      refusesEnumeration = keys.value(
        "directory.refuse-enumeration", .boolean, default: "false",
        "Refuses look-ups that look like an enumeration of numbers with 413; they are counted in any case.")
      snapshotPath = keys.value(
        "directory.snapshot", .path, default: "relay-data/directory.snapshot",
        "The file that keeps the directory in memory between two starts; without it a process reads the store.")
      isOblivious = keys.value(
        "directory.oblivious", .boolean, default: "true",
        "Offers look-ups that do not tell this relay which numbers are looked for; every contact gets an output.")
      partition = keys.optional(
        "directory.partition", .partition, default: "none (= all)",
        "The part of the directory that this process holds, for others to ask: `I/N`, the I-th of N equal parts.")
      host = keys.value(
        "directory.host", .host, default: "127.0.0.1", "Where a process with a part listens for those that ask for it.")
      port = keys.optional(
        "directory.port", .port, default: "none", "Its port; needed with `directory.partition`.")
      tls = TLS(&keys, below: "directory.tls")
      authority = keys.optional(
        "directory.tls.ca", .path, default: "the system's",
        "PEM file of the CAs that the certificates of `directory.parts` may come from.")
      parts = keys.optional(
        "directory.parts", .parts, default: "none",
        "The processes that hold the parts, for processes with the role `clients` and without `directory`: `I/N=URL`, "
          + "comma-separated; each part once or more.")
    }
  }
}

/// A process that holds a part of the directory.
package struct PartLocation: Sendable, Equatable {
  package let part: DirectoryPartition
  package let url: WebURL
}

extension ValueType where Value == DirectoryPartition {
  static let partition = ValueType(name: "part") { text throws(Malformed) in
    guard let part = DirectoryPartition(text) else {
      throw Malformed("I/N, the I-th of N parts, with N from 1 to \(DirectoryPartition.countMax), as in 3/8")
    }
    return part
  }
}

extension ValueType where Value == [PartLocation] {
  /// Every part of one partition is there.
  static let parts = ValueType(name: "parts", isList: true) { text throws(Malformed) in
    var locations: [PartLocation] = []
    for item in text.split(separator: ",", omittingEmptySubsequences: false) {
      let words = item.trimmingPrefix { $0 == " " }.split(separator: "=", maxSplits: 1).map(String.init)
      guard words.count == 2, let part = DirectoryPartition(words[0]), let url = WebURL(words[1]), url.path.isEmpty
      else {
        throw Malformed("I/N=URL, comma-separated, as in 1/2=http://10.0.0.1:8090,2/2=http://10.0.0.2:8090")
      }
      locations.append(PartLocation(part: part, url: url))
    }
    let counts = Set(locations.map(\.part.count))
    guard let count = counts.first, counts.count == 1 else { throw Malformed("parts of one partition, with one N") }
    let missing = Set(DirectoryPartition.all(count)).subtracting(locations.map(\.part)).sorted()
    guard missing.isEmpty else {
      throw Malformed("every part of the partition, and not all but \(missing.map(\.text).joined(separator: ", "))")
    }
    guard Set(locations.map(\.url.text)).count == locations.count else {
      throw Malformed("another URL for each process: one holds one part")
    }
    return locations
  }
}
