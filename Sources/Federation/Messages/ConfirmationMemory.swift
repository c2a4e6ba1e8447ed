import RelayCore

/// What peers confirmed to this process last, and what of it was written down, so that a conversation costs few writes.
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

  /// Two generations bound the memory without a list of uses: a full young one becomes the old one.
  private var young: [Key: Entry] = [:]
  private var old: [Key: Entry] = [:]
  private let generationSize: Int

  /// - Parameter capacity: entries held at most, of some 150 bytes; whose is forgotten costs a write more.
  init(capacity: Int = 100_000) { generationSize = max(1, capacity / 2) }

  /// - Parameter interval: how long what was written serves before it is written again.
  /// - Returns: what is to be written, with the registration ids that are known where `devices` gives none; nil when it
  ///   stands there already.
  mutating func confirmed(
    _ devices: [ConfirmedDevice], of key: Key, at now: Timestamp, writingEvery interval: Duration
  ) -> Word? {
    // Nearly always.
    if let place = young.index(forKey: key), young.values[place].says(devices, at: now, writtenEvery: interval) {
      young.values[place].confirmed = max(young.values[place].confirmed, now)
      return nil
    }
    let former = young[key] ?? old[key]
    let merged = devices.map { device in
      guard device.registrationID == 0, let known = former?.devices.first(where: { $0.id == device.id }) else {
        return device
      }
      return known
    }
    if let former, former.devices == merged, now < former.written.adding(interval) {
      change(key) { $0.confirmed = max($0.confirmed, now) }
      return nil
    }
    if young[key] == nil, young.count >= generationSize {
      old = young
      young = [:]
    }
    young[key] = Entry(devices: merged, written: now, confirmed: now)
    return Word(key: key, devices: merged, confirmed: now)
  }

  /// What `relay` confirmed later than was written of it; it counts as written from here on.
  mutating func takeUnwritten(of relay: RelayName) -> [Word] {
    let late = old.merging(young) { $1 }.filter { $0.key.relay == relay && $0.value.confirmed > $0.value.written }
    for key in late.keys { change(key) { $0.written = $0.confirmed } }
    return late.map { Word(key: $0.key, devices: $0.value.devices, confirmed: $0.value.confirmed) }
  }

  /// It was not written, or the peer has said otherwise.
  mutating func forget(_ key: Key) {
    young[key] = nil
    old[key] = nil
  }

  private mutating func change(_ key: Key, _ body: (inout Entry) -> Void) {
    if var entry = young[key] {
      body(&entry)
      young[key] = entry
    } else if var entry = old[key] {
      body(&entry)
      old[key] = entry
    }
  }
}
