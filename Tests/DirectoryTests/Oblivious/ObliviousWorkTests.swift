import RelayCore
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct ObliviousWorkTests {
  private static let tokens = (0..<1250).map { ContactToken(high: UInt64($0), low: 0) }

  /// Works `work` off, a page of each peer being all of `tokens`.
  private static func run(_ work: inout ObliviousWork, _ tokens: [ContactToken]) -> [ObliviousWork.Step] {
    var steps: [ObliviousWork.Step] = []
    while let step = work.step {
      steps.append(step)
      switch step {
      case .tokens: work.aligned()
      case .range, .page: work.found(tokens)
      case .sweep: work.sweptUpTo(nil)
      }
    }
    return steps
  }

  @Test func `every range is gone through in turn, and then what is not registered any more is removed`() {
    var work = ObliviousWork(rangesDone: 250, isSwept: false)
    let steps = Self.run(&work, [])
    #expect(steps == DirectoryRange.all[250...].map { ObliviousWork.Step.range($0) } + [.sweep(after: nil)])
    #expect(work.rangesDone == 256 && work.isSwept && work.step == nil)
  }

  @Test func `contacts without an output are evaluated some at a time, each once`() {
    var work = ObliviousWork(rangesDone: 255, isSwept: true)
    work.found(Self.tokens)
    #expect(work.pending == 1250 && work.rangesDone == 255)
    var seen: [ContactToken] = []
    while case .tokens(let part)? = work.step {
      #expect((1...ObliviousWork.stepMax).contains(part.count))
      seen += part
      work.aligned()
    }
    #expect(Set(seen) == Set(Self.tokens) && seen.count == 1250)
    #expect(work.rangesDone == 256 && work.step == nil)
  }

  @Test func `a peer that came is gone through page by page, before ranges, and known of until its end`() throws {
    let peer = try #require(RelayName("peer"))
    var work = ObliviousWork(rangesDone: 255, isSwept: true)
    work.came(peer)
    #expect(work.step == .page(of: peer, after: nil) && work.hasWalks)
    work.found(Array(Self.tokens[..<3]), last: Self.tokens[9])
    #expect(work.step == .tokens(Array(Self.tokens[..<3])))
    work.aligned()
    #expect(work.step == .page(of: peer, after: Self.tokens[9]) && work.hasWalks)
    // It came once more: it is read from its beginning.
    work.came(peer)
    #expect(work.step == .page(of: peer, after: nil))
    work.found([], last: nil)
    #expect(!work.hasWalks && work.step == .range(DirectoryRange.all[255]))
  }

  @Test func `a peer that went is forgotten, and what was its is looked for`() throws {
    let (peer, other) = (try #require(RelayName("peer")), try #require(RelayName("other")))
    var work = ObliviousWork(rangesDone: 256, isSwept: true)
    work.came(peer)
    work.found(Self.tokens, last: Self.tokens[9])
    work.came(other)
    work.went(peer)
    #expect(work.pending == 0 && work.step == .page(of: other, after: nil))
    work.found([])
    #expect(work.step == .sweep(after: nil) && !work.isSwept)
    work.sweptUpTo(Self.tokens[5])
    #expect(work.step == .sweep(after: Self.tokens[5]))
    // Another one goes meanwhile: what was looked at may be its.
    work.went(other)
    #expect(work.step == .sweep(after: nil))
    work.sweptUpTo(nil)
    #expect(work.isSwept && work.step == nil)
  }
}
