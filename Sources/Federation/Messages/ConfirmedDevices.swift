import RelayCore

/// The devices that a peer confirms by accepting a submission for all of them.
extension Submission {
  /// Ascending, each device once; nil when it does not tell all devices of its destination.
  ///
  /// The first generation's submissions go to device 1 and say nothing of others.
  var confirmedDevices: [ConfirmedDevice]? {
    guard coverage == .activeDevices, !messages.isEmpty else { return nil }
    var ids: [DeviceID: Int64] = [:]
    for message in messages { ids[message.device] = max(ids[message.device] ?? 0, message.registrationID) }
    return ids.map { ConfirmedDevice(id: $0.key, registrationID: $0.value) }.sorted { $0.id < $1.id }
  }

  /// Judges the submission as the peer would by the devices that it confirmed last, as `DeviceValidation` does by an
  /// account's.
  /// - Throws: `.mismatchedDevices` before `.staleDevices`; their arrays ascend, extra ones in request order.
  func check(against confirmed: [ConfirmedDevice]) throws(Problem) {
    let expected = confirmed.filter { coverage == .activeDevices || $0.id == .master }
    let missing = expected.map(\.id).filter { id in !messages.contains { $0.device == id } }
    let extra = messages.map(\.device).filter { id in !expected.contains { $0.id == id } }
    guard missing.isEmpty, extra.isEmpty else { throw .mismatched(missing: missing, extra: extra) }
    let stale = messages.filter { message in
      message.registrationID > 0
        && expected.contains {
          $0.id == message.device && $0.registrationID > 0 && $0.registrationID != message.registrationID
        }
    }
    guard stale.isEmpty else { throw .stale(stale.map(\.device)) }
  }
}
