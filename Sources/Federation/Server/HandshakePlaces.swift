import OrderedCollections
import RelayCore

/// How many connections may be in their handshake, and how many may begin one.
///
/// Places bound what a flood that stays holds, rates what a flood that comes and goes costs: a handshake costs a
/// signature, which a place does not show.
struct HandshakeBounds: Sendable {
  /// The share of one kind of address. Its rates count handshakes that proved no peer.
  struct Share: Sendable {
    /// Places of one address, and of all of this kind.
    let places: Int
    let placesOfAll: Int
    let rate: Bucket
    /// nil: no bound beside those of each address.
    let rateOfAll: Bucket?
  }

  /// Addresses that no peer is known to come from. All together stay below a tenth of a processor.
  var strangers = Share(
    places: 32, placesOfAll: 256, rate: Bucket(size: 64, perMinute: 960), rateOfAll: Bucket(size: 256, perMinute: 7680))
  /// Addresses that peers come from. Others may come from there too: it is a gateway's, or a cloud's. So the rate is
  /// such that what is let in leaves each connection half a second before it is displaced.
  var known = Share(
    places: 128, placesOfAll: 512, rate: Bucket(size: 512, perMinute: 15_360), rateOfAll: nil)

  /// Places of all kinds.
  var placesMax: Int { strangers.placesOfAll + known.placesOfAll }

  subscript(_ kind: HandshakePlaces.Kind) -> Share {
    switch kind {
    case .known, .balancer: known
    case .stranger: strangers
    }
  }
}

/// The connections of one process that have not finished their handshake, by the address that they come from.
///
/// A place is taken when a connection is accepted. If all places of an address are taken, the newest connection
/// displaces its oldest one; if all of a kind of address are, the oldest one of the addresses that have the most. Where
/// none has more than two, the oldest of all goes. A client that means to shake hands does it soon; one that does not
/// is soon the oldest. One kind takes no places from another.
struct HandshakePlaces {
  /// An IPv4 address, or the /64 of an IPv6 address; empty where there is none.
  typealias Source = [UInt8]
  /// One connection: never used again for another.
  struct ID: Hashable, Sendable { fileprivate let number: UInt64 }

  enum Kind: CaseIterable, Sendable {
    case known, stranger
    /// Speaks for addresses that it does not tell: it has no share of its own.
    case balancer
  }

  /// Why a connection ends before its handshake does.
  enum Refusal: String, CaseIterable, Sendable {
    /// Its address has begun too many handshakes.
    case addressRate = "address-rate"
    /// All addresses that no peer is known to come from have.
    case strangersRate = "strangers-rate"
    /// A newer connection took its place.
    case displaced
  }

  enum Verdict: Equatable {
    case admitted(ID, displacing: ID?)
    case refused(Refusal)
  }

  private struct Entry {
    let source: Source
    let kind: Kind
  }

  private let bounds: HandshakeBounds
  /// Oldest first.
  private var entries: [Kind: OrderedDictionary<ID, Entry>] = [:]
  private var kinds: [ID: Kind] = [:]
  private var counts: [Kind: [Source: Int]] = [:]
  private var levels = BucketLevels<Source>()
  private var strangersLevel = BucketLevel()
  private var last: UInt64 = 0

  init(_ bounds: HandshakeBounds) { self.bounds = bounds }

  func count(of kind: Kind) -> Int { entries[kind]?.count ?? 0 }

  mutating func opened(from source: Source, _ kind: Kind, at now: ContinuousClock.Instant) -> Verdict {
    let share = bounds[kind]
    if kind != .balancer {
      guard levels.hasRoom(source, share.rate, at: now) else { return .refused(.addressRate) }
      if let all = share.rateOfAll {
        guard strangersLevel.hasRoom(all, at: now) else { return .refused(.strangersRate) }
        strangersLevel.charge(all, at: now)
      }
      levels.charge(source, share.rate, at: now)
    }
    let displaced = displaced(by: source, kind, share)
    if let displaced { forget(displaced) }
    last += 1
    let id = ID(number: last)
    entries[kind, default: [:]][id] = Entry(source: source, kind: kind)
    kinds[id] = kind
    counts[kind, default: [:]][source, default: 0] += 1
    return .admitted(id, displacing: displaced)
  }

  /// Its handshake is over, or the connection is. Does nothing for one that is displaced.
  /// - Parameter provesPeer: then it is not charged, so that peers may come as often as they like.
  mutating func ended(_ id: ID, provesPeer: Bool, at now: ContinuousClock.Instant) {
    guard let entry = forget(id) else { return }
    guard provesPeer, entry.kind != .balancer else { return }
    levels.refund(entry.source, bounds[entry.kind].rate, at: now)
    if let all = bounds[entry.kind].rateOfAll { strangersLevel.refund(all, at: now) }
  }

  private func displaced(by source: Source, _ kind: Kind, _ share: HandshakeBounds.Share) -> ID? {
    if kind != .balancer, counts[kind]?[source] ?? 0 >= share.places { return oldest(of: source, kind) }
    guard count(of: kind) >= share.placesOfAll else { return nil }
    let most = counts[kind]?.values.max() ?? 0
    // A few are nothing that an address takes from others: then the oldest of all goes.
    guard most > Self.placesFew else { return entries[kind]?.keys.first }
    return entries[kind]?.first { counts[kind]?[$0.value.source] == most }?.key
  }

  /// As many as an honest address may have in its handshake at once.
  private static let placesFew = 2

  private func oldest(of source: Source, _ kind: Kind) -> ID? {
    entries[kind]?.first { $0.value.source == source }?.key
  }

  @discardableResult
  private mutating func forget(_ id: ID) -> Entry? {
    guard let kind = kinds.removeValue(forKey: id), let entry = entries[kind]?.removeValue(forKey: id) else {
      return nil
    }
    let rest = (counts[kind]?[entry.source] ?? 0) - 1
    counts[kind]?[entry.source] = rest > 0 ? rest : nil
    return entry
  }
}
