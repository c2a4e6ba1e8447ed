import RelayCore

/// Whether a store is an older state of itself, by the epochs that witnesses remember of it.
///
/// Redis is the operator's own and is believed. A peer may name any number. If Redis remembers an epoch, no peer is
/// asked; otherwise two peers must agree. The second highest claim counts, because two peers claim at least that
/// much. So one peer alone can neither raise it nor hide it.
enum RestoreVerdict: Equatable {
  /// No believed witness remembers a higher epoch.
  case newest
  case older(than: Int64, by: RestoreWord)
  /// One peer alone claims that it is older, and all others that might know have spoken: not believed.
  case claimed(Claim)
  /// All witnesses that might know are silent.
  /// - Parameter claim: of one peer alone that it is older.
  case unknown(claim: Claim?)

  struct Claim: Equatable {
    let epoch: Int64
    let peer: RelayName
  }

  /// - Parameters:
  ///   - redis: empty where none is configured.
  ///   - own: the store's epoch.
  init(redis: [EpochTestimony], peers: [EpochTestimony], own: Int64) {
    if let remembered = redis.compactMap(\.epoch).max(), remembered > 0 {
      self = remembered > own ? .older(than: remembered, by: .redis) : .newest
      return
    }
    let isSomebodySilent = (redis + peers).contains { $0.epoch == nil }
    let claims = peers.compactMap { testimony -> Claim? in
      guard let peer = testimony.peer, let epoch = testimony.epoch, epoch > 0 else { return nil }
      return Claim(epoch: epoch, peer: peer)
    }.sorted { $0.epoch > $1.epoch }
    let higher = claims.filter { $0.epoch > own }
    if higher.count > 1 {
      self = .older(than: higher[1].epoch, by: .peers(higher.map(\.peer)))
    } else if let alone = higher.first {
      // Another one that remembers, and less, has spoken against it. Without such a one, the silent may confirm it yet.
      self = claims.count == 1 && isSomebodySilent ? .unknown(claim: alone) : .claimed(alone)
    } else {
      self = claims.isEmpty && isSomebodySilent ? .unknown(claim: nil) : .newest
    }
  }
}
