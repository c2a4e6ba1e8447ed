import RelayCore

/// Answers questions from the table of a process that holds a part.
struct PartLookUp: Sendable {
  enum Refusal: Error { case otherPart, notReady }

  private let view: DirectoryView

  init(_ view: DirectoryView) { self.view = view }

  func answers(to questions: PartQuestions) throws(Refusal) -> PartAnswers {
    guard questions.part == view.part else { throw .otherPart }
    // The place that the table has reached first, the table after it: whoever comes back with it misses nothing.
    guard view.isReady, let place = view.recent.cursor else { throw .notReady }
    let tokens = questions.tokens.unpacked
    var codes = [PartAnswers.Code](repeating: .unknown, count: tokens.count)
    view.withEntries(of: tokens.span) { index, entry in codes[index] = .init(entry, isChanged: false) }
    // Behind the table: each relay of an entry has a name by then.
    var names = UsedNames(of: view.relays.names)
    for index in codes.indices {
      guard let entry = codes[index].entry, entry.relay > 0 else { continue }
      codes[index] = .init(names.renumbered(entry), isChanged: false)
    }
    var areChangesKnown: [Bool] = []
    var end = 0
    for question in questions.questions {
      let range = end..<(end + question.tokenCount)
      end = range.upperBound
      let changed = changed(question, tokens[range])
      areChangesKnown.append(changed != nil)
      guard let changed, !changed.isEmpty else { continue }
      for index in range where changed.contains(tokens[index]) { codes[index] = codes[index].changed }
    }
    return PartAnswers(
      part: view.part, place: place, entries: view.table.count, names: names.used, areChangesKnown: areChangesKnown,
      codes: codes)
  }

  /// - Returns: nil when it is not known, or was not asked.
  private func changed(_ question: PartQuestions.Question, _ tokens: ArraySlice<ContactToken>) -> Set<ContactToken>? {
    guard case .changes(let since?) = question.telling else { return nil }
    return view.recent.changed(Array(tokens), since: since).map(Set.init)
  }
}

/// The names that an answer needs, out of all that a process has.
private struct UsedNames {
  private(set) var used: [RelayName] = []
  private let all: [RelayName]
  /// The numbers in the answer, by the numbers in the table; 0 for none yet.
  private var numbers: [Int]

  init(of all: [RelayName]) {
    self.all = all
    numbers = [Int](repeating: 0, count: all.count + 1)
  }

  /// - Returns: nil for an entry whose relay has no name.
  mutating func renumbered(_ entry: TokenEntry) -> TokenEntry? {
    guard entry.relay > 0 else { return entry }
    guard entry.relay <= all.count else { return nil }
    if numbers[entry.relay] == 0 {
      used.append(all[entry.relay - 1])
      numbers[entry.relay] = used.count
    }
    return TokenEntry(relay: numbers[entry.relay], supportsSMS: entry.supportsSMS, voice: entry.voice)
  }
}
