import RelayCore

/// The queries of a table that holds the first of `NumberedTokens`, each as an entry of the relay that `relay(of:)`
/// says.
struct TableQueries: Sendable {
  let tokens: [ContactToken]
  /// The sums that all look-ups together have to find.
  let expected: Found

  /// The finds, in two sums that tell a wrong table from the right one.
  struct Found: Sendable, Equatable {
    var count = 0
    /// The sum of the relays' numbers.
    var relays = 0
  }

  /// Relays that the entries are of, this one included.
  static let relays = 5
  /// The share of queries that are found.
  static let knownShare = 0.3

  static func relay(of number: UInt64) -> Int { Int(number % UInt64(relays)) }

  init(_ count: Int, of entries: Int) {
    var generator = RepeatableGenerator()
    var tokens: [ContactToken] = []
    tokens.reserveCapacity(count)
    var expected = Found()
    for index in 0..<count {
      if Double.random(in: 0..<1, using: &generator) < Self.knownShare {
        let number = UInt64.random(in: 0..<UInt64(entries), using: &generator)
        tokens.append(NumberedTokens.token(number))
        expected.count += 1
        expected.relays += Self.relay(of: number)
      } else {
        tokens.append(NumberedTokens.token(NumberedTokens.firstUnknown + UInt64(index)))
      }
    }
    self.tokens = tokens
    self.expected = expected
  }
}
