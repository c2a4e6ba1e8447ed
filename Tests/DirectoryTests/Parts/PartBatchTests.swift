import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct PartBatchTests {
  private static let tellings: [WantedContacts.Telling] = [
    .entries, .changes(since: nil), .changes(since: PartSample.place(5)), .changes(since: PartSample.place(8)),
    // Behind the table, and of another store.
    .changes(since: PartSample.place(99)), .changes(since: DirectoryPlace(generation: 4, revision: 5)),
  ]

  @Test(arguments: [1, 2, 3, 4, 8, 64], 1...5 as ClosedRange<UInt64>)
  func `look-ups over parts find what the whole directory has, changes included`(count: Int, seed: UInt64) async throws
  {
    let sample = try PartSample(parts: count, seed: seed)
    var random = SeededGenerator(seed: seed)
    let wanted = (0..<20).map { index in
      WantedContacts(sample.someTokens(&random), telling: Self.tellings[index % Self.tellings.count])
    }
    let batch = PartBatch(wanted, among: count)
    let answered = AnsweredBatch(batch, try sample.answers(to: batch))
    for (index, wanted) in wanted.enumerated() {
      let found = try answered.found(index, of: wanted)
      #expect(found.hits.map(\.index) == found.hits.map(\.index).sorted())
      let expected = try await LocalContacts(sample.whole).find(wanted)
      #expect(Outcome(found, of: wanted.tokens) == Outcome(expected, of: wanted.tokens))
    }
  }

  @Test func `only parts with tokens are asked for entries, and each for changes`() throws {
    let sample = try PartSample(parts: 8, seed: 1)
    let token = sample.tokens[0]
    let part = DirectoryPartition.index(of: token, among: 8)
    let entries = PartBatch([WantedContacts([token])], among: 8)
    #expect(entries.questions.indices.filter { !entries.questions[$0].questions.isEmpty } == [part])
    let changes = PartBatch([WantedContacts([token], telling: .changes(since: nil))], among: 8)
    #expect(changes.questions.allSatisfy { $0.questions.count == 1 })
    #expect(changes.questions.indices.filter { !changes.questions[$0].tokens.isEmpty } == [part])
    let none = PartBatch([WantedContacts([])], among: 8)
    #expect(none.questions.allSatisfy { $0.questions.isEmpty })
    #expect(try AnsweredBatch(none, Array(repeating: nil, count: 8)).found(0, of: WantedContacts([])).hits.isEmpty)
  }

  @Test func `a part that fails takes only the look-ups along that need it`() throws {
    let sample = try PartSample(parts: 4, seed: 2)
    let (failing, others) = (
      sample.tokens.filter { sample.parts[2].part.holds($0) }, sample.tokens.filter { !sample.parts[2].part.holds($0) }
    )
    let wanted = [WantedContacts(others), WantedContacts(others + failing), WantedContacts(others)]
    let batch = PartBatch(wanted, among: 4)
    var answers = try sample.answers(to: batch)
    answers[2] = .failure(Problem(.unavailable, retryAfter: .seconds(1)))
    let answered = AnsweredBatch(batch, answers)
    #expect(throws: Never.self) { try answered.found(0, of: wanted[0]) }
    #expect(throws: Problem(.unavailable, retryAfter: .seconds(1))) { try answered.found(1, of: wanted[1]) }
    #expect(throws: Never.self) { try answered.found(2, of: wanted[2]) }
  }

  @Test func `the place to ask from next is that of the part that is furthest behind`() throws {
    let sample = try PartSample(parts: 3, seed: 3)
    sample.parts[0].recent.advance(to: PartSample.place(30))
    sample.parts[1].recent.advance(to: PartSample.place(20))
    sample.parts[2].recent.advance(to: PartSample.place(40))
    let wanted = WantedContacts(sample.tokens, telling: .changes(since: PartSample.place(25)))
    let batch = PartBatch([wanted], among: 3)
    let found = try AnsweredBatch(batch, sample.answers(to: batch)).found(0, of: wanted)
    #expect(found.next == PartSample.place(20))
    // One part does not know what came before it.
    #expect(found.changed == nil)
    sample.parts[1].recent.advance(to: DirectoryPlace(generation: 4, revision: 20))
    let mixed = AnsweredBatch(batch, try sample.answers(to: batch))
    #expect(throws: Problem(.unavailable, retryAfter: .seconds(1))) { try mixed.found(0, of: wanted) }
  }

  @Test func `a part answers for itself alone, and not before it is loaded`() throws {
    let sample = try PartSample(parts: 2, seed: 4)
    #expect(throws: PartLookUp.Refusal.otherPart) {
      try PartLookUp(sample.parts[0]).answers(to: PartQuestions(of: sample.parts[1].part))
    }
    #expect(throws: PartLookUp.Refusal.notReady) {
      try PartLookUp(DirectoryView(part: sample.parts[0].part)).answers(to: PartQuestions(of: sample.parts[0].part))
    }
    let looked = try PartLookUp(sample.parts[0]).answers(to: PartQuestions(of: sample.parts[0].part))
    #expect(looked.entries == sample.parts[0].table.count && looked.codes.isEmpty && looked.names.isEmpty)
  }
}
