import RelayCore
import TestSupport
import Testing

@testable import Directory

/// A directory of random contacts, whole and in parts.
struct PartSample {
  let whole: DirectoryView
  let parts: [DirectoryView]
  /// Some are known, some are not.
  let tokens: [ContactToken]
  /// Those among `tokens` that have changed behind `place(5)`, some of them gone.
  let changed: Set<ContactToken>

  static func place(_ revision: UInt64) -> DirectoryPlace { DirectoryPlace(generation: 3, revision: revision) }

  init(parts count: Int, seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let names = try (1...20).map { try #require(RelayName("peer-\($0)")) }
    let tokens = (0..<500).map { _ in
      ContactToken(high: random.next(), low: UInt16.random(in: .min ... .max, using: &random))
    }
    let views = try [DirectoryView()] + DirectoryPartition.all(count).map { try DirectoryView(part: $0) }
    let changed = Set(tokens.filter { _ in Int.random(in: 0..<10, using: &random) == 0 })
    let entries = tokens.compactMap { token -> DirectoryEntry? in
      guard Bool.random(using: &random) else { return nil }
      let relay = Bool.random(using: &random) ? names.randomElement(using: &random) : nil
      return DirectoryEntry(
        token: token, relay: relay, supportsSMS: Bool.random(using: &random), voice: Bool.random(using: &random))
    }
    for view in views {
      // Processes number peers in the order in which they meet them.
      for name in names.shuffled(using: &random) { _ = view.relays.number(of: name) }
      let held = entries.filter { view.part.holds($0.token) }
      let table = try TokenTable()
      try table.apply(
        held.map { entry in
          TokenChange(
            entry.token,
            TokenEntry(
              relay: try #require(view.relays.known(entry.relay)), supportsSMS: entry.supportsSMS, voice: entry.voice))
        })
      let changes = changed.map { DirectoryChange(.token($0), revision: UInt64(6)) }
      view.begin(Following(table, at: Self.place(10)), recent: changes, since: Self.place(1))
    }
    whole = views[0]
    parts = Array(views[1...])
    self.tokens = tokens
    self.changed = changed
  }

  /// A look-up of some tokens, with repeats.
  func someTokens(_ random: inout SeededGenerator) -> [ContactToken] {
    (0..<Int.random(in: 0...60, using: &random)).compactMap { _ in tokens.randomElement(using: &random) }
  }

  /// Each part's answer, over the wire; nil for one that is not asked.
  func answers(to batch: PartBatch) throws -> [Result<PartAnswers, Problem>?] {
    try zip(batch.questions, parts).map { questions, view in
      guard !questions.questions.isEmpty else { return nil }
      let read = try #require(PartQuestions(questions.bytes))
      #expect(read == questions)
      let answers = try PartLookUp(view).answers(to: read)
      #expect(PartAnswers(answers.bytes, to: questions) == answers)
      return .success(answers)
    }
  }
}

extension PartBatch {
  init(_ wanted: [WantedContacts], among count: Int) {
    self.init(wanted.map { SplitLookUp($0, among: count) }, among: count)
  }
}

/// A look-up's outcome, without the numbers of relays.
struct Outcome: Equatable {
  let entries: [Int: DirectoryEntry]
  let next: DirectoryPlace?
  let changed: [ContactToken]?

  init(_ found: FoundContacts, of tokens: [ContactToken]) {
    var entries: [Int: DirectoryEntry] = [:]
    for hit in found.hits {
      entries[hit.index] = DirectoryEntry(
        token: tokens[hit.index], relay: hit.entry.relay == 0 ? nil : found.names[hit.entry.relay - 1],
        supportsSMS: hit.entry.supportsSMS, voice: hit.entry.voice)
    }
    self.entries = entries
    next = found.next
    changed = found.changed
  }
}
