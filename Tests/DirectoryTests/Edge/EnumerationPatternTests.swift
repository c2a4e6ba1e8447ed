import Crypto
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct EnumerationPatternTests {
  /// For numbers as their digits: those that were found, among those that were asked for.
  private static func isSequential(_ found: some Sequence<Int64>, among asked: some Sequence<Int64>) throws -> Bool {
    EnumerationPattern.isSequential(try found.map(number), among: try asked.map(token))
  }
  private static func number(_ digits: Int64) throws -> AccountNumber { try #require(AccountNumber(digits: digits)) }
  private static func token(_ digits: Int64) throws -> ContactToken {
    ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Array(try number(digits).e164.utf8))))
  }

  private static let first: Int64 = 49_151_000_000_000

  @Test func `many contacts of whom hardly one is known look like numbers at random, in a large directory`() {
    #expect(EnumerationPattern.isHitPoor(asked: 500, known: 4, directory: 100_000))
    #expect(EnumerationPattern.isHitPoor(asked: 20_000, known: 199, directory: 10_000_000))
    #expect(EnumerationPattern.isHitPoor(asked: 500, known: 5, directory: 10_000_000) == false)
    #expect(EnumerationPattern.isHitPoor(asked: 499, known: 0, directory: 10_000_000) == false)
    #expect(EnumerationPattern.isHitPoor(asked: 20_000, known: 0, directory: 99_999) == false)
  }

  @Test func `numbers in a row are noticed, however few of them are known`() throws {
    let row = Array(Self.first..<Self.first + 200)
    let found = [3, 50, 77, 120, 199].map { Self.first + $0 }
    #expect(try Self.isSequential(found, among: row))
    #expect(try Self.isSequential(found, among: row.shuffled()))
    // Every second and every fourth one; at every fifth nobody has a neighbour.
    for (step, expected) in [(2, true), (4, true), (5, false)] as [(Int64, Bool)] {
      let asked = (0..<200).map { Self.first + $0 * step }
      let found = [0, 10, 20, 30].map { Self.first + $0 * step }
      #expect(try Self.isSequential(found, among: asked) == expected, "\(step)")
    }
  }

  @Test func `an address book is none, nor one with some numbers in a row`() throws {
    var random = SeededGenerator(seed: 7)
    var book = (0..<2000).map { _ in Int64.random(in: Self.first..<Self.first + 10_000_000, using: &random) }
    let found = Array(book.prefix(8))
    #expect(try Self.isSequential(found, among: book) == false)
    // The office: three of the eight that were found have colleagues there.
    for number in found.prefix(3) { book += [number + 1, number + 2] }
    #expect(try Self.isSequential(found, among: book) == false)
    book += [found[4] + 1, found[4] - 1]
    #expect(try Self.isSequential(found, among: book))
  }

  @Test func `few numbers are no pattern, and a repeated neighbour counts once`() throws {
    let row = Array(Self.first..<Self.first + 200)
    #expect(try Self.isSequential([], among: row) == false)
    let three = [10, 20, 30].map { Self.first + $0 }
    #expect(try Self.isSequential(three, among: row) == false)
    let one = [11, 21, 31, 41].map { Self.first + $0 }
    #expect(try Self.isSequential(three + [Self.first + 40], among: one + one + one) == false)
    // At the end of all numbers there are fewer neighbours.
    let last: Int64 = 999_999_999_999_999
    #expect(try Self.isSequential((0..<4).map { last - $0 }, among: [last]) == false)
  }
}
