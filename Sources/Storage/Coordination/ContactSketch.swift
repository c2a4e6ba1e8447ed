import RelayCore

/// The contacts that an account has asked for, none of them in clear: a Bloom filter that grows with them, under a
/// key of its own (docs/security.md).
///
/// A contact that was asked for before is always found again, except for the oldest of more than `contactsMax`. A new
/// contact is taken for one of them with a chance of 1 in 100 at most, even if contacts are chosen on purpose:
/// choosing contacts that meet takes the key. So the count is never too high for remembered contacts, and too low by
/// 1 % at most.
///
/// HyperLogLog, a sketch that counts without remembering, would be smaller, but would not hold. Suppose that an
/// account at the end of its allowance asks for one contact at a time. It is refused the contacts that raise the
/// count, at no cost, and answered the others. At 20,000 these are two of five.
struct ContactSketch: Sendable, Equatable {
  /// When its first contact was asked for.
  let begun: Timestamp
  /// Different contacts in all.
  private(set) var count = 0
  private let salt: Salt
  /// The oldest first; all full but the last.
  private var filters: [ContactFilter] = []

  private struct Salt: Sendable, Equatable {
    let first: UInt64
    let second: UInt64
  }

  /// The sketch of an account that has asked for nothing.
  init(begun: Timestamp, random: inout some RandomNumberGenerator) {
    self.begun = begun
    salt = Salt(first: random.next(), second: random.next())
  }

  /// Adds `tokens`, unless that were more than `allowance`: then nothing changes.
  mutating func spend(
    _ tokens: [ContactToken], within allowance: LookUpAllowance, at now: Timestamp
  ) -> ContactSpending {
    var asked = self
    asked.add(tokens)
    let new = asked.count - count
    guard new > 0 else { return .allowed(new: 0) }
    let age = now.millis - begun.millis
    guard asked.count <= allowance.total(atAge: age) else {
      return .refused(retryAfter: allowance.wait(for: asked.count, atAge: age))
    }
    self = asked
    return .allowed(new: new)
  }

  private mutating func add(_ tokens: [ContactToken]) {
    let hash = SipHash(key: (salt.first, salt.second))
    for (index, token) in tokens.enumerated() {
      let value = hash.hash(token.high.byteSwapped, token.low.byteSwapped)
      guard !filters.contains(where: { $0.contains(value) }) else { continue }
      if filters.last?.isFull ?? true { grow(for: tokens.count - index) }
      filters[filters.count - 1].insert(value)
      count += 1
    }
  }

  /// Twice as large as the last one, or as large as what comes may need.
  private mutating func grow(for contacts: Int) {
    filters.append(ContactFilter(holding: max(contacts, 2 * (filters.last?.capacity ?? 0))))
    while filters.reduce(0, { $0 + $1.capacity }) > Self.contactsMax { filters.removeFirst() }
  }

  /// The most contacts that are remembered: 192 KiB. No address book is as large. An account that asks for more has
  /// to pay again for the oldest.
  static let contactsMax = 6 * ContactFilter.capacityMax
}

// MARK: - As bytes

extension ContactSketch {
  /// Another one after every change: whoever replaces a sketch knows by it that it is still the one that was read.
  static let headerBytes = 40
  private static let version: UInt64 = 1

  /// Little-endian numbers of 8 bytes: version, salt (two), beginning, count; then each filter.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(byteCount)
    for word in [Self.version, salt.first, salt.second, UInt64(bitPattern: begun.millis), UInt64(count)] {
      bytes.append(littleEndian: word)
    }
    for filter in filters { filter.append(to: &bytes) }
    return bytes
  }

  var byteCount: Int { Self.headerBytes + filters.reduce(0) { $0 + $1.byteCount } }

  /// - Returns: nil for what `bytes` does not give, or not within a lifetime.
  init?(bytes: [UInt8]) {
    guard bytes.count >= Self.headerBytes, bytes.littleEndian(at: 0) == Self.version,
      case let (begun, count) = (bytes.littleEndian(at: 24), bytes.littleEndian(at: 32)), begun < 1 << 48,
      count < 1 << 48
    else { return nil }
    salt = Salt(first: bytes.littleEndian(at: 8), second: bytes.littleEndian(at: 16))
    self.begun = Timestamp(millis: Int64(begun))
    self.count = Int(count)
    var offset = Self.headerBytes
    while offset < bytes.count {
      guard let filter = ContactFilter(bytes, at: offset) else { return nil }
      filters.append(filter)
      offset += filter.byteCount
    }
    guard filters.reduce(0, { $0 + $1.capacity }) <= Self.contactsMax else { return nil }
  }
}

extension LookUpAllowance {
  /// How long until the allowance is `count`, which it is not yet; nil when it never is.
  func wait(for count: Int, atAge age: Int64) -> Duration? {
    guard perDay > 0 else { return nil }
    let days = (count - first - 1) / perDay + firstDays
    let (enough, isTooLong) = Int64(days).multipliedReportingOverflow(by: Self.dayMillis)
    return isTooLong ? nil : .milliseconds(max(1, enough - max(0, age)))
  }

  /// After that long without a request an account begins anew.
  var memory: Duration { .milliseconds(Int64(30 + firstDays) * Self.dayMillis) }
}
