extension BenchmarkReport {
  /// Empty where it was not measured.
  var obliviousTable: [String] {
    guard let oblivious else { return [] }
    let header = [
      "oblivious look-up of", "relay CPU s", "client CPU s", "KiB sent", "KiB received",
      "relay CPU ms a registration",
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
