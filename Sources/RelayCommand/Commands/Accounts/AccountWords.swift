import Operations

extension AccountRow {
  var state: String { isActive ? "active" : "inactive" }
}

extension AccountDetails {
  var state: String { isActive ? "active" : "inactive" }
}

extension DeviceRow {
  static let head = [
    ["DEVICE", "STATE", "PUSH", "SEEN", "SINCE", "WAITING", "BYTES", "PREKEYS", "SIGNED PREKEY"]
  ]

  var cells: [String] {
    [
      "\(id)", isActive ? "active" : "inactive",
      push.isEmpty ? (fetches ? "fetches" : "-") : push.joined(separator: ","),
      seen, created, "\(waiting)", "\(waitingBytes)", "\(preKeys)", hasSignedPreKey ? "yes" : "no",
    ]
  }
}

extension RemovalRow {
  var words: String {
    "\(Self.count(devices, "device")), \(Self.count(waiting, "waiting message")), \(Self.count(preKeys, "prekey")), "
      + Self.count(attachments, "attachment")
  }

  private static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}
