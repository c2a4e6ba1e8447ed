import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct DirectoryPartitionTests {
  /// As hashes are, and at the ends of parts.
  private static let tokens: [ContactToken] = {
    var generator = SystemRandomNumberGenerator()
    let random = (0..<6_400).map { _ in ContactToken(high: generator.next(), low: UInt16.random(in: .min ... .max)) }
    let edges: [UInt64] = [0, 1, .max, .max - 1]
    return random + edges.flatMap { [ContactToken(high: $0, low: 0), ContactToken(high: $0, low: .max)] }
  }()

  @Test(arguments: 1...64)
  func `every token is in exactly one part, and parts are of one size`(count: Int) {
    let parts = DirectoryPartition.all(count)
    #expect(parts.map(\.number) == Array(1...count))
    var sizes = [Int](repeating: 0, count: count)
    for token in Self.tokens {
      let holders = parts.filter { $0.holds(token) }
      #expect(holders.map(\.index) == [DirectoryPartition.index(of: token, among: count)])
      for part in holders { sizes[part.index] += 1 }
    }
    // Six deviations of the binomial distribution: one run of millions lies outside.
    let mean = Double(Self.tokens.count) / Double(count)
    #expect(sizes.allSatisfy { abs(Double($0) - mean) < 6 * mean.squareRoot() + 8 }, "\(sizes)")
  }

  @Test(arguments: 1...64)
  func `a part is a run of tokens, and its first bytes are those of its tokens`(count: Int) {
    let sorted = Self.tokens.sorted()
    let indices = sorted.map { DirectoryPartition.index(of: $0, among: count) }
    #expect(indices == indices.sorted())
    for part in DirectoryPartition.all(count) {
      let bytes = part.firstBytes
      #expect(part.ranges.map(\.firstByte) == Array(bytes))
      for token in sorted where part.holds(token) { #expect(bytes.contains(UInt8(token.high >> 56))) }
      // The lowest and the highest have tokens of the part, others have no tokens but the part's.
      for byte in [bytes.lowerBound, bytes.upperBound] {
        let range = (first: UInt64(byte) << 56, last: UInt64(byte) << 56 | (1 << 56 - 1))
        let held =
          DirectoryPartition.index(
            of: ContactToken(high: range.first, low: 0), among: count)...DirectoryPartition.index(
            of: ContactToken(high: range.last, low: 0), among: count)
        #expect(held.contains(part.index))
      }
    }
    #expect(DirectoryPartition.all(count).first?.firstBytes.lowerBound == .min)
    #expect(DirectoryPartition.all(count).last?.firstBytes.upperBound == .max)
  }

  @Test func `a part is written as its number and the count`() {
    #expect(DirectoryPartition("3/8")?.index == 2)
    #expect(DirectoryPartition("3/8")?.text == "3/8")
    #expect(DirectoryPartition("1/1") == .whole)
    #expect(DirectoryPartition("64/64")?.number == 64)
    for text in ["", "/", "0/8", "9/8", "1/0", "1/65", "3", "3/8/1", "03/8", "+3/8", " 3/8", "3/8 ", "-1/8", "a/b"] {
      #expect(DirectoryPartition(text) == nil, "\(text)")
    }
  }
}
