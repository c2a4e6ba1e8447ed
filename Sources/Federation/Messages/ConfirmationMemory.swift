import RelayCore
import RelayWork

/// The latest confirmations of peers to this process, and which of them were written, so that a conversation costs
/// few writes.
struct ConfirmationMemory {
  struct Key: Hashable {
    let account: AccountNumber
    let relay: RelayName
  }
  /// Something to be written.
  struct Word: Equatable {
    let key: Key
    let devices: [ConfirmedDevice]
    let confirmed: Timestamp
  }
  private struct Entry {
    let devices: [ConfirmedDevice]
    var written: Timestamp
    var confirmed: Timestamp

    /// Whether `devices` are the same, as far as registration ids are given, and stand written yet.
    func says(_ devices: [ConfirmedDevice], at now: Timestamp, writtenEvery interval: Duration) -> Bool {
      guard self.devices.count == devices.count, now < written.adding(interval) else { return false }
      return zip(self.devices, devices).allSatisfy { known, device in
        known.id == device.id && (device.registrationID == 0 || device.registrationID == known.registrationID)
      }
    }
  }

  private var entries: TwoGenerations<Key, Entry>

  /// - Parameter capacity: entries held at most, of some 150 bytes; whose is forgotten costs a write more.
  init(capacity: Int = 100_000) { entries = TwoGenerations(capacity: capacity) }

  /// - Parameter interval: how long what was written serves before it is written again.
  /// - Returns: what is to be written, with the registration ids that are known where `devices` gives none; nil when it
  ///   stands there already.
  mutating func confirmed(
    _ devices: [ConfirmedDevice], of key: Key, at now: Timestamp, writingEvery interval: Duration
  ) -> Word? {
    // Nearly always.
    var isSaid = false
    entries.updateExisting(key) { entry in
      isSaid = entry.says(devices, at: now, writtenEvery: interval)
      if isSaid { entry.confirmed = max(entry.confirmed, now) }
    }
    if isSaid { return nil }
    let former = entries[key]
    let merged = devices.map { device in
      guard device.registrationID == 0, let known = former?.devices.first(where: { $0.id == device.id }) else {
        return device
      }
      return known
    }
    if let former, former.devices == merged, now < former.written.adding(interval) {
      entries.updateExisting(key) { $0.confirmed = max($0.confirmed, now) }
      return nil
    }
    entries.insert(Entry(devices: merged, written: now, confirmed: now), for: key)
    return Word(key: key, devices: merged, confirmed: now)
  }

  /// Takes the confirmations of `relay` that are newer than their written ones. They count as written from here on.
  mutating func takeUnwritten(of relay: RelayName) -> [Word] {
    let late = entries.old.merging(entries.young) { $1 }.filter {
      $0.key.relay == relay && $0.value.confirmed > $0.value.written
    }
    for key in late.keys { entries.updateExisting(key) { $0.written = $0.confirmed } }
    return late.map { Word(key: $0.key, devices: $0.value.devices, confirmed: $0.value.confirmed) }
  }

  /// It was not written, or the peer has said otherwise.
  mutating func forget(_ key: Key) { entries.removeValue(forKey: key) }
}
