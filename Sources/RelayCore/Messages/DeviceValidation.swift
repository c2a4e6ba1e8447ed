/// Whether a submission names the right devices (reference 3.2 and 3.3).
package enum DeviceValidation {
  /// - Parameters:
  ///   - coverage: which devices must be named.
  ///   - sender: the sending device when the destination is its own account, else nil. It is not one of the active
  ///     devices that are named.
  /// - Throws: `.mismatchedDevices` before `.staleDevices`; their arrays ascend, extra ones in request order.
  package static func check(
    _ messages: [SubmittedMessage], against account: Account, coverage: Submission.Coverage = .activeDevices,
    sender: DeviceID?, at now: Timestamp
  ) throws(Problem) {
    let expected = account.activeDevices(at: now).filter { device in
      switch coverage {
      case .activeDevices: device.id != sender
      case .masterDevice: device.id == .master
      }
    }
    let missing = expected.map(\.id).filter { id in !messages.contains { $0.device == id } }
    let extra = messages.map(\.device).filter { id in !expected.contains { $0.id == id } }
    guard missing.isEmpty, extra.isEmpty else { throw .mismatched(missing: missing, extra: extra) }
    let stale = messages.filter { message in
      message.registrationID > 0
        && expected.contains { $0.id == message.device && Int64($0.registrationID) != message.registrationID }
    }
    guard stale.isEmpty else { throw .stale(stale.map(\.device)) }
  }
}
