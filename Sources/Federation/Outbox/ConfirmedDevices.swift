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

/// What this process wrote down last of what peers confirmed, so that a conversation costs a write an hour.
struct ConfirmationMemory {
  struct Key: Hashable {
    let account: AccountNumber
    let relay: RelayName
  }
  private struct Entry {
    let devices: [ConfirmedDevice]
    let written: ContinuousClock.Instant
  }

  /// Two generations bound the memory without a list of uses: a full young one becomes the old one.
  private var young: [Key: Entry] = [:]
  private var old: [Key: Entry] = [:]
  private let generationSize: Int

  private static let life = Duration.seconds(3600)

  /// - Parameter capacity: entries held at most.
  init(capacity: Int = 10_000) { generationSize = max(1, capacity / 2) }

  /// - Returns: what is to be written, with the registration ids that are known where `devices` gives none; nil when it
  ///   stands there already.
  mutating func confirmed(_ devices: [ConfirmedDevice], of key: Key, at now: ContinuousClock.Instant)
    -> [ConfirmedDevice]?
  {
    let former = young[key] ?? old[key]
    let merged = devices.map { device in
      guard device.registrationID == 0, let known = former?.devices.first(where: { $0.id == device.id }) else {
        return device
      }
      return known
    }
    if let former, former.devices == merged, now - former.written < Self.life { return nil }
    if young[key] == nil, young.count >= generationSize {
      old = young
      young = [:]
    }
    young[key] = Entry(devices: merged, written: now)
    return merged
  }

  /// It was not written, or the peer has said otherwise.
  mutating func forget(_ key: Key) {
    young[key] = nil
    old[key] = nil
  }
}
