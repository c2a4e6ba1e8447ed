import RelayCore

/// Look-ups that go to the parts together: what each part is asked, and what its answer means for each look-up.
///
/// Every token passes here twice. So what is kept for each of them lies in one array, not in one for each part.
struct PartBatch: Sendable {
  private let wanted: [WantedContacts]
  /// For each part, in their order. A part that holds none of the tokens has no questions, and is not asked.
  private(set) var questions: [PartQuestions]
  /// For each part and each of its questions, the look-up that it is of.
  private var owners: [[Int]]
  private let sorted: SortedTokens

  /// - Parameter count: of the parts.
  init(_ wanted: [WantedContacts], among count: Int) {
    self.wanted = wanted
    sorted = SortedTokens(wanted, among: count)
    questions = DirectoryPartition.all(count).map { PartQuestions(of: $0) }
    owners = Array(repeating: [], count: count)
    for part in 0..<count {
      questions[part].tokens = sorted.tokens(of: part)
      for (lookUp, wanted) in wanted.enumerated() {
        let share = sorted.share(of: lookUp, part)
        // The place to ask from next is that of the part that is furthest behind: each is asked.
        guard share > 0 || wanted.telling != .entries else { continue }
        questions[part].questions.append(.init(telling: wanted.telling, tokenCount: share))
        owners[part].append(lookUp)
      }
    }
  }

  // MARK: The answers

  /// One look-up as far as parts have answered.
  fileprivate struct Gathered {
    var next: DirectoryPlace?
    var areChangesKnown = true
    var problem: Problem?
  }

  /// - Parameter answers: for each part; nil for one that was not asked.
  /// - Returns: for each look-up.
  func results(_ answers: [Result<PartAnswers, Problem>?]) -> [Result<FoundContacts, Problem>] {
    var gathered = [Gathered](repeating: Gathered(), count: wanted.count)
    // The codes follow the tokens of all look-ups, one look-up behind the other.
    var codes = [UInt16](repeating: 0, count: sorted.count)
    var names = MergedNames()
    for (part, answer) in answers.enumerated() {
      switch answer {
      case nil: continue
      case .failure(let problem): for lookUp in owners[part] { gathered[lookUp].problem = problem }
      case .success(let answer):
        let (numbers, origins) = (names.numbers(of: answer.names), sorted.origins(of: part))
        for (code, origin) in zip(answer.codes, origins) where code.bits != 0 {
          codes[Int(origin)] = Self.renumbered(code, numbers).bits
        }
        note(answer, of: part, in: &gathered)
      }
    }
    var start = 0
    return zip(wanted, gathered).map { wanted, gathered in
      defer { start += wanted.tokens.count }
      return result(of: wanted, gathered, codes[start..<(start + wanted.tokens.count)], names.all)
    }
  }

  private func note(_ answer: PartAnswers, of part: Int, in gathered: inout [Gathered]) {
    for (question, lookUp) in owners[part].enumerated() where wanted[lookUp].telling != .entries {
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
    of wanted: WantedContacts, _ gathered: Gathered, _ codes: ArraySlice<UInt16>, _ names: [RelayName]
  ) -> Result<FoundContacts, Problem> {
    if let problem = gathered.problem { return .failure(problem) }
    var hits: [ContactHits.Hit] = []
    hits.reserveCapacity(codes.count { $0 != 0 })
    var changed: [ContactToken] = []
    for (index, bits) in codes.enumerated() where bits != 0 {
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

/// The tokens of some look-ups in the order of the parts that hold them.
private struct SortedTokens: Sendable {
  private let parts: Int
  /// The tokens of the first part come first.
  private let tokens: [ContactToken]
  /// The place of each of `tokens` among the tokens of all look-ups, one look-up behind the other.
  private let origins: [Int32]
  /// The place in `tokens` at which each part begins; the last element is the end.
  private let begins: [Int]
  /// How many tokens of each look-up each part holds: the parts of the first look-up come first.
  private let shares: [Int]

  init(_ wanted: [WantedContacts], among parts: Int) {
    self.parts = parts
    var shares = [Int](repeating: 0, count: wanted.count * parts)
    for (lookUp, wanted) in wanted.enumerated() {
      let row = lookUp * parts
      for token in wanted.tokens { shares[row + DirectoryPartition.index(of: token, among: parts)] += 1 }
    }
    var begins = [0]
    for part in 0..<parts { begins.append(wanted.indices.reduce(begins[part]) { $0 + shares[$1 * parts + part] }) }
    let count = begins[parts]
    var origins: [Int32] = []
    let tokens = [ContactToken](unsafeUninitializedCapacity: count) { tokens, filled in
      origins = [Int32](unsafeUninitializedCapacity: count) { origins, filled in
        Self.sort(wanted, begins, into: tokens, origins)
        filled = count
      }
      filled = count
    }
    (self.tokens, self.origins, self.begins, self.shares) = (tokens, origins, begins, shares)
  }

  /// - Parameters:
  ///   - tokens: of the size of all, not initialized yet. So are `origins`.
  private static func sort(
    _ wanted: [WantedContacts], _ begins: [Int], into tokens: UnsafeMutableBufferPointer<ContactToken>,
    _ origins: UnsafeMutableBufferPointer<Int32>
  ) {
    let parts = begins.count - 1
    var next = begins
    next.withUnsafeMutableBufferPointer { next in
      var origin: Int32 = 0
      for wanted in wanted {
        for token in wanted.tokens {
          let part = DirectoryPartition.index(of: token, among: parts)
          let place = next[part]
          next[part] = place &+ 1
          tokens.initializeElement(at: place, to: token)
          origins.initializeElement(at: place, to: origin)
          origin &+= 1
        }
      }
    }
  }

  var count: Int { tokens.count }

  func tokens(of part: Int) -> ArraySlice<ContactToken> { tokens[begins[part]..<begins[part + 1]] }

  func share(of lookUp: Int, _ part: Int) -> Int { shares[lookUp * parts + part] }

  /// The places of the tokens of `part` among the tokens of all look-ups.
  func origins(of part: Int) -> ArraySlice<Int32> { origins[begins[part]..<begins[part + 1]] }
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
