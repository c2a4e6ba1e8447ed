import RelayCore

/// Tokens as good as random, each known by its number, so that millions need not be kept to be asked for again.
enum NumberedTokens {
  static func token(_ number: UInt64) -> ContactToken {
    ContactToken(high: mixed(2 &* number), low: UInt16(truncatingIfNeeded: mixed(2 &* number &+ 1)))
  }

  /// A number that no table is filled up to.
  static let firstUnknown: UInt64 = 1 << 48

  /// The output function of splitmix64: another value for each, none like its neighbours.
  static func mixed(_ value: UInt64) -> UInt64 {
    var mixed = value &+ 0x9E37_79B9_7F4A_7C15
    mixed = (mixed ^ (mixed &>> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed &>> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed &>> 31)
  }
}

/// The same numbers in each run.
struct RepeatableGenerator: RandomNumberGenerator {
  private var count: UInt64 = 0

  mutating func next() -> UInt64 {
    count &+= 1
    return NumberedTokens.mixed(count &* 0x9E37_79B9_7F4A_7C15)
  }
}
