import RelayCore

/// Look-ups that go to the parts together: what each part is asked, and what its answer means for each look-up.
struct PartBatch: Sendable {
  private let wanted: [WantedContacts]
  /// For each part, in their order. A part that holds none of the tokens has no questions, and is not asked.
  private(set) var questions: [PartQuestions]
  /// For each part and each of its questions, the look-up that it is of.
  private var owners: [[Int]]
  /// For each part and each of its tokens, the index of that token in its look-up.
  private var origins: [[Int]]

  /// - Parameter count: of the parts.
  init(_ wanted: [WantedContacts], among count: Int) {
    self.wanted = wanted
    questions = DirectoryPartition.all(count).map { PartQuestions(of: $0) }
    owners = Array(repeating: [], count: count)
    origins = Array(repeating: [], count: count)
    let room = wanted.reduce(0) { $0 + $1.tokens.count } / count * 5 / 4 + 8
    for part in 0..<count {
      questions[part].tokens.reserveCapacity(room)
      origins[part].reserveCapacity(room)
    }
    for lookUp in wanted.indices { add(lookUp, among: count) }
  }

  private mutating func add(_ lookUp: Int, among count: Int) {
    let (tokens, telling) = (wanted[lookUp].tokens, wanted[lookUp].telling)
    let before = questions.map(\.tokens.count)
    for (index, token) in tokens.enumerated() {
      let part = DirectoryPartition.index(of: token, among: count)
      questions[part].tokens.append(token)
      origins[part].append(index)
    }
    for part in 0..<count {
      let added = questions[part].tokens.count - before[part]
      // The place to ask from next is that of the part that is furthest behind: each is asked.
      guard added > 0 || telling != .entries else { continue }
      questions[part].questions.append(.init(telling: telling, tokenCount: added))
      owners[part].append(lookUp)
    }
  }

  // MARK: The answers

  /// One look-up as far as parts have answered.
  fileprivate struct Gathered {
    /// By the index of the token.
    var codes: [UInt16]
    var next: DirectoryPlace?
    var areChangesKnown = true
    var problem: Problem?
  }

  /// - Parameter answers: for each part; nil for one that was not asked.
  /// - Returns: for each look-up.
  func results(_ answers: [Result<PartAnswers, Problem>?]) -> [Result<FoundContacts, Problem>] {
    var gathered = wanted.map { Gathered(codes: [UInt16](repeating: 0, count: $0.tokens.count)) }
    var names = MergedNames()
    for (part, answer) in answers.enumerated() {
      switch answer {
      case nil: continue
      case .failure(let problem): for lookUp in owners[part] { gathered[lookUp].problem = problem }
      case .success(let answer): take(answer, of: part, &names, &gathered)
      }
    }
    return wanted.indices.map { result(of: wanted[$0], gathered[$0], names.all) }
  }

  private func take(_ answer: PartAnswers, of part: Int, _ names: inout MergedNames, _ gathered: inout [Gathered]) {
    let numbers = names.numbers(of: answer.names)
    var index = 0
    for (question, lookUp) in owners[part].enumerated() {
      for _ in 0..<questions[part].questions[question].tokenCount {
        gathered[lookUp].codes[origins[part][index]] = Self.renumbered(answer.codes[index], numbers).bits
        index += 1
      }
      guard wanted[lookUp].telling != .entries else { continue }
      if !answer.areChangesKnown[question] { gathered[lookUp].areChangesKnown = false }
      gathered[lookUp].take(answer.place)
    }
  }

  private static func renumbered(_ code: PartAnswers.Code, _ numbers: [Int?]) -> PartAnswers.Code {
    guard let entry = code.entry, entry.relay > 0 else { return code }
    return PartAnswers.Code(
      numbers[entry.relay - 1].map { TokenEntry(relay: $0, supportsSMS: entry.supportsSMS, voice: entry.voice) },
      isChanged: code.isChanged)
  }

  private func result(
    of wanted: WantedContacts, _ gathered: Gathered, _ names: [RelayName]
  ) -> Result<FoundContacts, Problem> {
    if let problem = gathered.problem { return .failure(problem) }
    var hits: [ContactHits.Hit] = []
    var changed: [ContactToken] = []
    for (index, bits) in gathered.codes.enumerated() where bits != 0 {
      let code = PartAnswers.Code(bits: bits)
      if let entry = code.entry { hits.append(ContactHits.Hit(index: index, entry: entry)) }
      if code.isChanged { changed.append(wanted.tokens[index]) }
    }
    let isTold = wanted.telling != .entries && gathered.areChangesKnown
    return .success(FoundContacts(hits: hits, names: names, next: gathered.next, changed: isTold ? changed : nil))
  }
}

extension PartBatch.Gathered {
  /// The earliest place counts: everything before it is in every part.
  fileprivate mutating func take(_ place: DirectoryPlace) {
    guard let next else { return self.next = place }
    // A store that was just set back: a part still has the state before.
    guard next.generation == place.generation else {
      return problem = Problem(.unavailable, retryAfter: .seconds(1), reason: "parts of the directory differ in age")
    }
    if place < next { self.next = place }
  }
}

/// The names of several answers under numbers of their own.
private struct MergedNames {
  private(set) var all: [RelayName] = []
  private var known: [RelayName: Int] = [:]

  /// - Returns: for each of `names` its number, from 1; nil for one that no number is left for.
  mutating func numbers(of names: [RelayName]) -> [Int?] {
    names.map { name in
      if let number = known[name] { return number }
      guard all.count < TokenEntry.relayMax else { return nil }
      all.append(name)
      known[name] = all.count
      return all.count
    }
  }
}
