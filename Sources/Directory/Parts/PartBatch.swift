import RelayCore

/// Look-ups that go to the parts together: what each part is asked.
struct PartBatch: Sendable {
  /// The place of a look-up in the questions to a part.
  struct Place: Sendable {
    /// Among the part's questions.
    let question: Int
    /// Its first token, among those of all questions of the part.
    let first: Int
  }

  let lookUps: [SplitLookUp]
  /// For each part, in their order. A part that holds none of the tokens has no questions, and is not asked.
  let questions: [PartQuestions]
  /// For each look-up and each part, nil if the part is not asked for it; those of the first look-up come first.
  private let places: [Place?]

  /// - Parameters:
  ///   - lookUps: split among as many parts.
  ///   - count: of the parts.
  init(_ lookUps: [SplitLookUp], among count: Int) {
    var places = [Place?](repeating: nil, count: lookUps.count * count)
    questions = DirectoryPartition.all(count).enumerated().map { index, part in
      var asked = PartQuestions(of: part)
      asked.tokens.reserve(lookUps.reduce(0) { $0 + $1.range(of: index).count })
      for (number, lookUp) in lookUps.enumerated() {
        let range = lookUp.range(of: index)
        // The place to ask from next is that of the part that is furthest behind: each is asked.
        guard !range.isEmpty || lookUp.telling != .entries else { continue }
        places[number * count + index] = Place(question: asked.questions.count, first: asked.tokens.count)
        asked.questions.append(.init(telling: lookUp.telling, tokenCount: range.count))
        asked.tokens.append(lookUp.tokens, range)
      }
      return asked
    }
    self.lookUps = lookUps
    self.places = places
  }

  func place(of lookUp: Int, in part: Int) -> Place? { places[lookUp * questions.count + part] }
}

/// A batch with the answers of all parts: each look-up finds its contacts in it.
///
/// A look-up does so in its own task, just before it writes its answer: so the codes are still in the processor's
/// cache.
final class AnsweredBatch: Sendable {
  private let batch: PartBatch
  private let answers: [Result<PartAnswers, Problem>?]
  private let names: [RelayName]
  /// For each part, the numbers among `names` of its own ones; nil for a name that no number is left for.
  private let numbers: [[Int?]]

  /// - Parameter answers: for each part; nil for one that was not asked.
  init(_ batch: PartBatch, _ answers: [Result<PartAnswers, Problem>?]) {
    self.batch = batch
    self.answers = answers
    var names = MergedNames()
    numbers = answers.map { answer in
      guard case .success(let answer)? = answer else { return [] }
      return names.numbers(of: answer.names)
    }
    self.names = names.all
  }

  /// - Parameters:
  ///   - lookUp: its number in the batch.
  ///   - wanted: what was split into it.
  /// - Throws: what a part that was asked for it failed with.
  func found(_ lookUp: Int, of wanted: WantedContacts) throws(Problem) -> FoundContacts {
    var codes = [UInt16](repeating: 0, count: wanted.tokens.count)
    var telling = ToldPlaces()
    for part in answers.indices {
      guard let place = batch.place(of: lookUp, in: part), let answer = answers[part] else { continue }
      let answered = try answer.get()
      let origins = batch.lookUps[lookUp].origins(of: part)
      for (code, origin) in zip(answered.codes[place.first...], origins) where code.bits != 0 {
        codes[Int(origin)] = code.renumbered(by: numbers[part]).bits
      }
      if wanted.telling != .entries {
        try telling.take(answered.place, areChangesKnown: answered.areChangesKnown[place.question])
      }
    }
    var hits: [ContactHits.Hit] = []
    hits.reserveCapacity(codes.count { $0 != 0 })
    var changed: [ContactToken] = []
    for (index, bits) in codes.enumerated() where bits != 0 {
      let code = PartAnswers.Code(bits: bits)
      if let entry = code.entry { hits.append(ContactHits.Hit(index: index, entry: entry)) }
      if code.isChanged { changed.append(wanted.tokens[index]) }
    }
    let isTold = wanted.telling != .entries && telling.areChangesKnown
    return FoundContacts(hits: hits, names: names, next: telling.next, changed: isTold ? changed : nil)
  }
}

extension PartAnswers.Code {
  /// - Parameter numbers: of the relays, by those of the answer; nil makes the token an unknown one.
  fileprivate func renumbered(by numbers: [Int?]) -> Self {
    guard let entry, entry.relay > 0 else { return self }
    return Self(
      numbers[entry.relay - 1].map { TokenEntry(relay: $0, supportsSMS: entry.supportsSMS, voice: entry.voice) },
      isChanged: isChanged)
  }
}

/// The places that the parts of one look-up have reached.
private struct ToldPlaces {
  private(set) var next: DirectoryPlace?
  private(set) var areChangesKnown = true

  /// The earliest place counts: everything before it is in every part.
  mutating func take(_ place: DirectoryPlace, areChangesKnown: Bool) throws(Problem) {
    if !areChangesKnown { self.areChangesKnown = false }
    guard let next else { return self.next = place }
    // A store that was just set back: a part still has the state before.
    guard next.generation == place.generation else {
      throw Problem(.unavailable, retryAfter: .seconds(1), reason: "parts of the directory differ in age")
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
