import Operations
import TestTags
import Testing

@Suite(.tags(.unit)) struct NumberPrefixTests {
  @Test func `a prefix is one range for each length, and nothing else is one`() throws {
    let prefix = try #require(NumberPrefix("+1415"))
    #expect(prefix.ranges.count == 12)
    #expect(prefix.ranges[0] == 1415...1415 && prefix.ranges[7] == 14_150_000_000...14_159_999_999)
    for number: Int64 in [14_155_550_100, 141_599_999_999_999] {
      #expect(prefix.ranges.filter { $0.contains(number) }.count == 1)
    }
    for number: Int64 in [14_165_550_100, 14_149_999_999, 1_415_555_010_000_000] {
      #expect(!prefix.ranges.contains { $0.contains(number) })
    }
    #expect(prefix.ranges == prefix.ranges.sorted { $0.lowerBound < $1.lowerBound })
    #expect(NumberPrefix("+")?.ranges.count == 1)
    #expect(NumberPrefix("+999999999999999")?.ranges == [999_999_999_999_999...999_999_999_999_999])
    for text in ["", "1415", "+0", "+14a", "+ 1", "+1415555010012345", "+١"] { #expect(NumberPrefix(text) == nil) }
  }
}
