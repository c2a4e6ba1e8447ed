package import RelayCore

extension RelayConfiguration {
  package struct Directory: Sendable, Equatable {
    package let allowance: LookUpAllowance
    package let refusesEnumeration: Bool
    /// A file.
    package let snapshotPath: String
    /// Whether look-ups are offered that do not tell what is looked for.
    package let isOblivious: Bool

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
    }
  }
}
