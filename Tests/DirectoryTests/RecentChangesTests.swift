import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct RecentChangesTests {
  private static let tokens = (0..<100).map { ContactToken(high: UInt64($0), low: 7) }
  private static func place(_ revision: UInt64, _ position: Int64 = 0) -> DirectoryPlace {
    DirectoryPlace(generation: 3, revision: revision, position: position)
  }

  @Test func `nothing is known before the directory is loaded`() {
    let recent = RecentChanges(max: 10)
    #expect(recent.cursor == nil)
    #expect(recent.changed(Self.tokens, since: Self.place(1)) == nil)
  }

  @Test func `changes since a cursor are told, in the order of the question`() {
    let recent = RecentChanges(max: 100)
    recent.begin(at: Self.place(5), cursor: Self.place(10))
    let changes: [(ContactToken, UInt64)] = [(Self.tokens[4], 11), (Self.tokens[2], 12), (Self.tokens[9], 13)]
    recent.note(changes)
    recent.advance(to: Self.place(14))
    #expect(recent.cursor == Self.place(14))
    #expect(recent.changed(Self.tokens, since: Self.place(10)) == [Self.tokens[2], Self.tokens[4], Self.tokens[9]])
    #expect(recent.changed(Self.tokens.reversed(), since: Self.place(12)) == [Self.tokens[9], Self.tokens[2]])
    #expect(recent.changed(Self.tokens, since: Self.place(14)) == [])
    #expect(
      recent.changed([Self.tokens[9], Self.tokens[9]], since: Self.place(13)) == [Self.tokens[9], Self.tokens[9]])
  }

  /// A walk over a peer's contacts notes them late, by the revision of the peer's change.
  @Test func `a change that is noted late hides no later one`() {
    let recent = RecentChanges(max: 20)
    recent.begin(at: Self.place(5), cursor: Self.place(10))
    recent.note([(Self.tokens[1], UInt64(100))])
    recent.note((10..<20).map { (Self.tokens[$0], UInt64(50)) })
    recent.note([(Self.tokens[1], UInt64(50))])
    recent.advance(to: Self.place(120))
    #expect(recent.changed([Self.tokens[1]], since: Self.place(95)) == [Self.tokens[1]])
  }

  @Test func `a beginning shows its place and the changes before it at once`() throws {
    let recent = RecentChanges(max: 100)
    let peer = try #require(RelayName("peer"))
    recent.begin(
      at: Self.place(5), cursor: Self.place(10),
      with: [
        DirectoryChange(.token(Self.tokens[1]), revision: 6), DirectoryChange(.peer(peer), revision: 7),
        DirectoryChange(.token(Self.tokens[2]), revision: 9),
      ])
    #expect(recent.changed(Self.tokens, since: Self.place(7)) == nil)
    #expect(recent.changed(Self.tokens, since: Self.place(8)) == [Self.tokens[2]])
    #expect(recent.changed(Self.tokens, since: Self.place(10)) == [])
  }

  @Test func `a cursor that is too old, ahead, or another store's is told everything`() {
    let recent = RecentChanges(max: 100)
    recent.begin(at: Self.place(5), cursor: Self.place(10))
    #expect(recent.changed(Self.tokens, since: Self.place(5)) == [])
    #expect(recent.changed(Self.tokens, since: Self.place(4, .max)) == nil)
    #expect(recent.changed(Self.tokens, since: Self.place(11)) == nil)
    #expect(recent.changed(Self.tokens, since: DirectoryPlace(generation: 4, revision: 7)) == nil)
    recent.forget(upTo: 8)
    #expect(recent.changed(Self.tokens, since: Self.place(8)) == nil)
    #expect(recent.changed(Self.tokens, since: Self.place(9)) == [])
  }

  /// However many changes come: what is told is complete, or it is said that it is not; and memory is bounded.
  @Test(arguments: [1, 2, 3] as [UInt64]) func `a forgotten change is never left out`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let recent = RecentChanges(max: 20)
    recent.begin(at: Self.place(1), cursor: Self.place(1))
    var changes: [ContactToken: UInt64] = [:]
    var answered = 0
    for revision in 1...2000 as ClosedRange<UInt64> {
      let token = Self.tokens[Int.random(in: 0..<100, using: &random)]
      recent.note(CollectionOfOne((token, revision)))
      changes[token] = revision
      recent.advance(to: Self.place(revision + 1))
      let since = UInt64.random(in: (revision > 40 ? revision - 40 : 1)...revision, using: &random)
      guard let told = recent.changed(Self.tokens, since: Self.place(since)) else { continue }
      answered += 1
      #expect(told == Self.tokens.filter { (changes[$0] ?? 0) >= since })
    }
    // At least half of the bound is always known.
    #expect(answered > 300)
    #expect(recent.changed(Self.tokens, since: Self.place(1995)) != nil)
    #expect(recent.changed(Self.tokens, since: Self.place(1900)) == nil)
  }
}

@Suite(.tags(.unit)) struct RelayNumbersTests {
  @Test func `a relay keeps its number, and this one has 0`() throws {
    let numbers = RelayNumbers()
    let (alpha, beta) = (try #require(RelayName("alpha")), try #require(RelayName("beta")))
    #expect(numbers.number(of: nil) == 0)
    #expect(numbers.known(alpha) == nil)
    #expect(numbers.number(of: alpha) == 1)
    #expect(numbers.number(of: beta) == 2)
    #expect(numbers.number(of: alpha) == 1)
    #expect(numbers.known(beta) == 2)
    let names = [-1, 0, 1, 2, 3].map { numbers.name(of: $0) }
    #expect(names == [nil, nil, alpha, beta, nil])
    #expect(numbers.names == [alpha, beta])
  }

  @Test func `numbers end, and it is said once`() throws {
    let numbers = RelayNumbers()
    let names = try (0...TokenEntry.relayMax).map { try #require(RelayName("relay-\($0)")) }
    let given = names.dropLast().map { numbers.number(of: $0) }
    #expect(given == Array(1...TokenEntry.relayMax))
    #expect(!numbers.hasNewlyRefused())
    #expect(numbers.number(of: names[TokenEntry.relayMax]) == nil)
    #expect(numbers.hasRefused)
    #expect(numbers.hasNewlyRefused())
    #expect(!numbers.hasNewlyRefused())
    #expect(numbers.number(of: names[0]) == 1)
  }

  @Test func `a file's numbers are taken over only where there are no others`() throws {
    let numbers = RelayNumbers()
    let names = try ["alpha", "beta"].map { try #require(RelayName($0)) }
    #expect(!numbers.adopt([names[0], names[0]]))
    #expect(numbers.names.isEmpty)
    #expect(numbers.adopt(names))
    #expect(numbers.adopt(names))
    #expect(numbers.number(of: names[1]) == 2)
    #expect(!numbers.adopt(names.reversed()))
    #expect(numbers.names == names)
  }
}
