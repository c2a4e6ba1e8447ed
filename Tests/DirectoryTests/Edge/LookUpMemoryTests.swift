import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// A process's memory of look-ups: address books that were asked for.
@Suite(.tags(.unit)) struct LookUpMemoryTests {
  private static func account(_ index: Int) throws -> AccountNumber {
    try #require(AccountNumber(digits: 15_550_000_000 + Int64(index)))
  }
  private static func tokens(_ range: Range<UInt64>) -> [ContactToken] {
    range.map { ContactToken(high: $0 &* 0x9E37_79B9_7F4A_7C15, low: UInt16($0 & 0xFFFF)) }
  }

  @Test func `an address book is the same in any order, and another with one contact more, less, changed or repeated`()
  {
    let books = AddressBookCache()
    let book = Self.tokens(0..<1000)
    let digest = books.digest(of: book)
    var random = SeededGenerator(seed: 3)
    for _ in 0..<20 { #expect(books.digest(of: book.shuffled(using: &random)) == digest) }
    var changed = book
    changed[500] = ContactToken(high: book[500].high, low: book[500].low ^ 1)
    for other in [Array(book.dropLast()), book + Self.tokens(1000..<1001), book + [book[0]], changed, []] {
      #expect(books.digest(of: other) != digest)
    }
    // Sums of what is not mixed would not tell these apart.
    let (a, b) = (ContactToken(high: 1, low: 5), ContactToken(high: 4, low: 5))
    let (c, d) = (ContactToken(high: 2, low: 5), ContactToken(high: 3, low: 5))
    #expect(books.digest(of: [a, b]) != books.digest(of: [c, d]))
    #expect(AddressBookCache().digest(of: book) != digest, "each process has a secret of its own")
  }

  @Test func `the last few books of each account are known, and nobody else's`() throws {
    let books = AddressBookCache()
    let (one, other) = (try Self.account(1), try Self.account(2))
    let digests = (0..<5).map { books.digest(of: Self.tokens(0..<UInt64(10 + $0))) }
    #expect(!books.holds(digests[0], of: one))
    for digest in digests {
      books.add(digest, of: one)
      #expect(books.holds(digest, of: one) && !books.holds(digest, of: other))
    }
    #expect(digests.map { books.holds($0, of: one) } == [false, true, true, true, true])
    for _ in 0..<5 { books.add(digests[1], of: one) }
    #expect(books.holds(digests[2], of: one), "a repeated book takes no other's place")
  }

  @Test func `the memory of address books is bounded in number and in time`() throws {
    let start = ContinuousClock.now
    let books = AddressBookCache(capacity: 20, now: start)
    let digest = books.digest(of: Self.tokens(0..<3))
    for index in 0..<1000 { books.add(digest, of: try Self.account(index), at: start) }
    let known = try (0..<1000).count { books.holds(digest, of: try Self.account($0), at: start) }
    #expect((10...20).contains(known))
    let last = try Self.account(999)
    #expect(books.holds(digest, of: last, at: start + .seconds(11 * 3600)))
    // Also of one who asks all the time.
    let hours = (0..<40).map { books.holds(digest, of: last, at: start + .seconds($0 * 3600)) }
    #expect(hours.first == true && hours.suffix(3) == [false, false, false])
  }
}
