import RelayCore
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct PeerWorkTests {
  private static let tokens = (0..<12_000).map { ContactToken(high: UInt64($0), low: 0) }

  @Test func `a peer that came is read page by page to its end`() throws {
    let peer = try #require(RelayName("peer"))
    var work = PeerWork()
    #expect(work.isEmpty && work.step == nil)
    work.came(peer, holding: [], revision: 4)
    let first = try #require(work.step)
    #expect(first == .page(of: peer, after: nil, revision: 4))
    work.done(first, last: Self.tokens[9])
    let second = try #require(work.step)
    #expect(second == .page(of: peer, after: Self.tokens[9], revision: 4))
    // It came once more: it is read from its beginning.
    work.came(peer, holding: [], revision: 5)
    #expect(work.step == .page(of: peer, after: nil, revision: 5))
    work.done(try #require(work.step), last: nil)
    #expect(work.isEmpty)
  }

  @Test func `tokens that a peer leaves are looked up some at a time, before anything else, each once`() throws {
    let (gone, present) = (try #require(RelayName("gone")), try #require(RelayName("present")))
    var work = PeerWork()
    work.came(gone, holding: [], revision: 1)
    work.came(present, holding: [], revision: 2)
    work.went(gone, leaving: Self.tokens, revision: 3)
    work.went(gone, leaving: [], revision: 4)
    var seen: [ContactToken] = []
    while case .tokens(let part, let revision)? = work.step {
      #expect(part.count <= PeerWork.stepMax && !part.isEmpty && revision == 3)
      seen += part
      work.done(.tokens(part, revision: revision), last: nil)
    }
    #expect(Set(seen) == Set(Self.tokens) && seen.count == Self.tokens.count)
    #expect(work.step == .page(of: present, after: nil, revision: 2))
    work.went(present, leaving: [], revision: 5)
    #expect(work.isEmpty)
  }

  @Test
  func `a returned peer's tokens in the table are looked up before its pages, and kept once`()
    throws
  {
    let peer = try #require(RelayName("peer"))
    var work = PeerWork()
    for revision in 1...3 as ClosedRange<UInt64> { work.came(peer, holding: Self.tokens, revision: revision) }
    var seen: [ContactToken] = []
    while case .tokens(let part, let revision)? = work.step {
      #expect(part.count <= PeerWork.stepMax && revision == 3)
      seen += part
      work.done(.tokens(part, revision: revision), last: nil)
    }
    #expect(Set(seen) == Set(Self.tokens) && seen.count == Self.tokens.count)
    #expect(work.step == .page(of: peer, after: nil, revision: 3))
    work.came(peer, holding: Self.tokens, revision: 4)
    work.went(peer, leaving: [], revision: 5)
    #expect(work.isEmpty)
  }
}

extension PeerWorkTests {
  @Test func `the claims of a former peer that is still known are read page by page`() throws {
    let peer = try #require(RelayName("peer"))
    var work = PeerWork()
    work.went(peer, leaving: Array(Self.tokens[0..<3]), hasClaims: true, revision: 3)
    let first = try #require(work.step)
    #expect(first == .tokens(Array(Self.tokens[0..<3]), revision: 3))
    work.done(first, last: nil)
    #expect(work.step == .page(of: peer, after: nil, revision: 3))
    work.done(try #require(work.step), last: nil)
    #expect(work.isEmpty)
  }
}

@Suite(.tags(.unit)) struct FailureRowTests {
  @Test func `a row of failures begins and ends once, and its pauses are bounded`() {
    var row = FailureRow()
    let wasFailing = row.succeeded()
    #expect(!wasFailing)
    let outcomes = (0..<30).map { index in row.failed(random: index % 2 == 0 ? 0 : 0.999) }
    #expect(outcomes.map(\.isFirst) == [true] + Array(repeating: false, count: 29))
    #expect(outcomes.allSatisfy { $0.pause >= .milliseconds(100) && $0.pause <= .seconds(2) })
    let ended = row.succeeded()
    let again = row.succeeded()
    #expect(ended && !again)
    let next = row.failed(random: 0)
    #expect(next.isFirst && next.pause < .seconds(1))
  }
}

@Suite(.tags(.unit)) struct CatchUpsTests {
  @Test func `a caller that waits is released by a reading that began afterwards, and by no other`() async {
    let catchUps = CatchUps()
    let before = catchUps.begin()
    await withTaskGroup(of: Void.self) { group in
      let (waiting, waits) = AsyncStream.makeStream(of: Void.self)
      group.addTask { await catchUps.wait(atMost: .seconds(600)) { waits.yield() } }
      for await _ in waiting { break }
      catchUps.finish(before)
      catchUps.finish(catchUps.begin())
    }
  }

  @Test func `nobody waits for longer than the limit, nor when cancelled`() async throws {
    let catchUps = CatchUps()
    await catchUps.wait(atMost: .milliseconds(10)) {}
    let (waiting, waits) = AsyncStream.makeStream(of: Void.self)
    let task = Task { await catchUps.wait(atMost: .seconds(600)) { waits.yield() } }
    for await _ in waiting { break }
    task.cancel()
    await task.value
    let late = Task {
      while !Task.isCancelled { await Task.yield() }
      await catchUps.wait(atMost: .seconds(600)) {}
    }
    late.cancel()
    await late.value
  }
}
