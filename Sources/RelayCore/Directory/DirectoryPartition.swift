/// A part of the directory: the tokens whose first bits fall into one of `count` equal ranges (docs/scale.md, "A
/// directory in parts").
///
/// Tokens are hashes, so parts are of one size. Every token is in exactly one part of a partition, and a part is a
/// run of tokens in their order.
package struct DirectoryPartition: Sendable, Hashable, Comparable {
  package static let countMax = 64
  /// The whole directory, as its only part.
  package static let whole = DirectoryPartition(index: 0, count: 1)

  /// From 0.
  package let index: Int
  /// 1...countMax.
  package let count: Int

  private init(index: Int, count: Int) {
    self.index = index
    self.count = count
  }

  /// - Parameter number: from 1.
  /// - Returns: nil unless `number` is in 1...count, and `count` in 1...countMax.
  package init?(_ number: Int, of count: Int) {
    guard (1...Self.countMax).contains(count), (1...count).contains(number) else { return nil }
    self.init(index: number - 1, count: count)
  }

  /// - Parameter text: `I/N` in decimal, without leading zeros.
  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
    guard parts.count == 2, let number = parts[0], let count = parts[1] else { return nil }
    self.init(number, of: count)
    guard self.text == text else { return nil }
  }

  /// All parts of a partition, in order.
  /// - Parameter count: 1...countMax.
  package static func all(_ count: Int) -> [DirectoryPartition] {
    (0..<count).map { DirectoryPartition(index: $0, count: count) }
  }

  /// From 1, as people count.
  package var number: Int { index + 1 }
  /// `I/N`
  package var text: String { "\(number)/\(count)" }
  package var isWhole: Bool { count == 1 }

  /// The index of the part that holds `token`.
  /// - Parameter count: of the parts, 1...countMax.
  @inline(__always)
  package static func index(of token: ContactToken, among count: Int) -> Int {
    Int(truncatingIfNeeded: token.high.multipliedFullWidth(by: UInt64(truncatingIfNeeded: count)).high)
  }

  /// `index(of:among:)` of each: one call for all that a look-up asks for.
  package static func indices(of tokens: [ContactToken], among count: Int) -> [UInt8] {
    tokens.map { UInt8(truncatingIfNeeded: index(of: $0, among: count)) }
  }

  package func holds(_ token: ContactToken) -> Bool { Self.index(of: token, among: count) == index }

  /// The first bytes that tokens of the part have. A token of the lowest or the highest may be of a neighbouring
  /// part.
  package var firstBytes: ClosedRange<UInt8> {
    let all = UInt8.min ... .max
    let lower = all.first {
      Self.index(of: ContactToken(high: UInt64($0) << 56 | (1 << 56 - 1), low: 0), among: count) >= index
    }
    let upper = all.last { Self.index(of: ContactToken(high: UInt64($0) << 56, low: 0), among: count) <= index }
    // Each part has some, since there are fewer parts than bytes.
    return (lower ?? .min)...(upper ?? .max)
  }

  /// The ranges in which tokens of the part lie.
  package var ranges: [DirectoryRange] { firstBytes.map(DirectoryRange.init) }

  package static func < (a: Self, b: Self) -> Bool { (a.count, a.index) < (b.count, b.index) }
}
