import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct ContactHitsTests {
  /// Requests of few different tokens, most of them repeated, beside sets.
  @Test(arguments: 1...50 as ClosedRange<UInt64>)
  func `each known token counts once, at its first place, and what is unknown is left`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let variety = Int.random(in: 1...300, using: &random)
    let pool = (0..<variety).map { _ in ContactToken(high: random.next(), low: UInt16(random.next() & 3)) }
    let known = Set(pool.prefix(Int.random(in: 0...variety, using: &random)))
    let tokens = (0..<Int.random(in: 0...500, using: &random)).map { _ in
      pool[Int.random(in: 0..<variety, using: &random)]
    }
    let places = tokens.enumerated().filter { known.contains($1) }.map { index, token in
      ContactHits.Hit(index: index, entry: TokenEntry(relay: Int(token.low), supportsSMS: false, voice: false))
    }
    let hits = ContactHits(places, of: tokens, factors: (random.next() | 1, random.next() | 1))

    var seen: Set<ContactToken> = []
    let expected = tokens.indices.filter { known.contains(tokens[$0]) && seen.insert(tokens[$0]).inserted }
    #expect(hits.distinct.map(\.index) == expected)
    #expect(hits.unknown(of: tokens) == tokens.filter { !known.contains($0) })

    let local = expected.map { tokens[$0] }.filter { $0.low == 0 }
    for max in [1, 4, 8, 1000] {
      let sample = hits.localSample(of: tokens, max: max)
      #expect(sample.count == min(max, local.count))
      #expect(Set(sample).count == sample.count && Set(sample).isSubset(of: local))
    }
  }

  /// A peer may list them.
  @Test(.timeLimit(.minutes(3))) func `many tokens with one beginning do not lie at one place`() {
    let tokens = (UInt16.min ... .max).map { ContactToken(high: 7, low: $0) }
    let places = tokens.indices.map {
      ContactHits.Hit(index: $0, entry: TokenEntry(relay: 1, supportsSMS: false, voice: false))
    }
    var random = SeededGenerator(seed: 5)
    let hits = ContactHits(places, of: tokens, factors: (random.next() | 1, random.next() | 1))
    #expect(hits.distinct.count == tokens.count)
  }

  /// The worst factors there are: all lie at one place.
  @Test func `bad factors cost time, and no entry`() {
    let tokens = (0..<200).map { ContactToken(high: UInt64($0), low: 0) }
    let places = tokens.indices.map {
      ContactHits.Hit(index: $0, entry: TokenEntry(relay: 0, supportsSMS: false, voice: false))
    }
    #expect(ContactHits(places, of: tokens, factors: (1, 1)).distinct.count == 200)
  }
}
