import RelayCore

/// Which tokens of one request the directory knows.
struct ContactHits: Sendable {
  struct Hit: Sendable {
    /// The index of the token in the request.
    let index: Int
    let entry: TokenEntry
  }

  /// Ascending by place, a repeated token each time.
  private let places: [Hit]
  /// Ascending by place, of a repeated token the first place alone.
  let distinct: [Hit]

  /// - Parameters:
  ///   - places: ascending, a repeated token each time.
  ///   - factors: odd and random, of a token's `high` and `low`: by them equal tokens are found, and nobody can aim
  ///     many
  ///     at one place.
  init(_ places: [Hit], of tokens: [ContactToken], factors: (high: UInt64, low: UInt64)) {
    self.places = places
    distinct = Self.firsts(of: places, tokens, factors)
  }

  /// The unknown ones among `tokens`, in their order, repeats included. The hits belong to the same `tokens`.
  func unknown(of tokens: [ContactToken]) -> [ContactToken] {
    var unknown: [ContactToken] = []
    unknown.reserveCapacity(tokens.count - places.count)
    var next = 0
    for hit in places {
      unknown += tokens[next..<hit.index]
      next = hit.index + 1
    }
    return unknown + tokens[next...]
  }

  /// The tokens of accounts of this relay, at most `max`, evenly over the request.
  func localSample(of tokens: [ContactToken], max: Int) -> [ContactToken] {
    let local = distinct.filter { $0.entry.relay == 0 }
    let count = min(max, local.count)
    return (0..<count).map { tokens[local[$0 * local.count / count].index] }
  }

  /// A table of the known tokens alone, which are few as a rule, instead of a set of all.
  private static func firsts(of places: [Hit], _ tokens: [ContactToken], _ factors: (high: UInt64, low: UInt64))
    -> [Hit]
  {
    guard places.count > 1 else { return places }
    let bits = Int.bitWidth - (2 * places.count - 1).leadingZeroBitCount
    let mask = 1 << bits - 1
    // Which of `firsts` lies there; -1 for none. At most half of them are used.
    var slots = [Int32](repeating: -1, count: mask + 1)
    var firsts: [Hit] = []
    firsts.reserveCapacity(places.count)
    for hit in places {
      let token = tokens[hit.index]
      let mixed = token.high &* factors.high &+ UInt64(token.low) &* factors.low
      var slot = Int(mixed >> UInt64(UInt64.bitWidth - bits))
      while slots[slot] >= 0, tokens[firsts[Int(slots[slot])].index] != token { slot = (slot + 1) & mask }
      guard slots[slot] < 0 else { continue }
      slots[slot] = Int32(firsts.count)
      firsts.append(hit)
    }
    return firsts
  }
}
