/// What an oblivious look-up of contacts costs that were not asked for before.
struct ObliviousFigures: Sendable, Encodable {
  let contacts: Int
  /// CPU seconds of the relay, medians of the rounds.
  let serverSeconds: Double
  /// Of this program.
  let clientSeconds: Double
  /// Of the bodies in which they are evaluated.
  let sentBytes: Int
  let receivedBytes: Int
  /// Accounts that were registered before, and the relay's CPU seconds for that: registrations and their outputs.
  let registered: Int
  let registeringSeconds: Double
}

extension BenchmarkReport {
  /// Empty where it was not measured.
  var obliviousTable: [String] {
    guard let oblivious else { return [] }
    let header = [
      "oblivious look-up of", "server CPU s", "client CPU s", "KiB sent", "KiB received",
      "server CPU ms a registration",
    ]
    return [""]
      + Self.table(
        header,
        [
          [
            "\(oblivious.contacts) contacts", Self.number(oblivious.serverSeconds, 2),
            Self.number(oblivious.clientSeconds, 2), Self.number(Double(oblivious.sentBytes) / 1024, 0),
            Self.number(Double(oblivious.receivedBytes) / 1024, 0),
            Self.number(oblivious.registeringSeconds / Double(max(1, oblivious.registered)) * 1000, 1),
          ]
        ])
  }
}
