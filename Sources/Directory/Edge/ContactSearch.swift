import RelayCore

/// Finds contacts: in this process's table, and those it does not know at the peers that are asked instead of copied.
struct ContactSearch: Sendable {
  private let view: DirectoryView
  private let finder: (any ContactFinder)?
  private let factors = (high: UInt64.random(in: .min ... .max) | 1, low: UInt64.random(in: .min ... .max) | 1)

  /// - Parameter finder: nil where no peer can be asked.
  init(view: DirectoryView, finder: (any ContactFinder)?) {
    self.view = view
    self.finder = finder
  }

  func hits(of tokens: [ContactToken]) -> ContactHits {
    var places: [ContactHits.Hit] = []
    view.withEntries(of: tokens) { index, entry in places.append(ContactHits.Hit(index: index, entry: entry)) }
    return ContactHits(places, of: tokens, factors: factors)
  }

  func entry(of token: ContactToken) async -> DirectoryEntry? {
    if let entry = view.entry(of: token) {
      return DirectoryEntry(
        token: token, relay: view.name(of: entry.relay), supportsSMS: entry.supportsSMS, voice: entry.voice)
    }
    guard let finder, finder.hasPeers else { return nil }
    return await finder.find([token]).first
  }

  /// `{"contacts": [...]}`: what is known of `tokens` in their order, each once.
  /// - Parameter hits: of `tokens`.
  func answer(_ tokens: [ContactToken], _ hits: ContactHits) async -> [UInt8] {
    let others = await others(tokens, hits)
    var answer = ContactAnswer(room: hits.distinct.count + others.count)
    write(tokens, hits, others, to: &answer) { _ in true }
    return answer.finish()
  }

  /// The answer to a request for changes.
  ///
  /// Answers of peers that are only asked are part of every answer: their changes are not announced.
  /// - Parameters:
  ///   - hits: of `tokens`.
  ///   - changed: `tokens` that may have changed; nil: everything that is known is told.
  ///   - next: the place that the table had reached before `hits` were found.
  func changes(of tokens: [ContactToken], _ hits: ContactHits, changed: [ContactToken]?, next: DirectoryPlace) async
    -> [UInt8]
  {
    let others = await others(tokens, hits)
    guard let changed else {
      var answer = ContactAnswer(room: hits.distinct.count + others.count)
      write(tokens, hits, others, to: &answer) { _ in true }
      return answer.finish(removed: [], cursor: next, isComplete: true)
    }
    var told = Set(changed)
    var answer = ContactAnswer(room: told.count + others.count)
    write(tokens, hits, others, to: &answer) { told.remove($0) != nil }
    told.subtract(others.keys)
    // In the order of the request, though nobody needs one.
    let removed = changed.filter { told.remove($0) != nil }
    return answer.finish(removed: removed, cursor: next, isComplete: false)
  }

  /// Writes what is known in the order of `tokens`.
  /// - Parameter isWanted: asked of each distinct token that the table knows; what is not wanted is left out.
  private func write(
    _ tokens: [ContactToken], _ hits: ContactHits, _ others: [ContactToken: DirectoryEntry],
    to answer: inout ContactAnswer, _ isWanted: (ContactToken) -> Bool
  ) {
    let names = view.relays.names
    var unwritten = others
    var next = 0
    for hit in hits.distinct {
      // Only where peers are asked there is anything between what the table knows.
      if !unwritten.isEmpty { Self.write(tokens[next..<hit.index], &unwritten, to: &answer) }
      next = hit.index + 1
      let (token, entry) = (tokens[hit.index], hit.entry)
      // Every entry's relay has a name.
      guard entry.relay <= names.count, isWanted(token) else { continue }
      answer.add(
        token, relay: entry.relay == 0 ? nil : names[entry.relay - 1], supportsSMS: entry.supportsSMS,
        voice: entry.voice)
    }
    if !unwritten.isEmpty { Self.write(tokens[next...], &unwritten, to: &answer) }
  }

  private static func write(
    _ tokens: ArraySlice<ContactToken>, _ entries: inout [ContactToken: DirectoryEntry], to answer: inout ContactAnswer
  ) {
    for token in tokens {
      if let entry = entries.removeValue(forKey: token) { answer.add(entry) }
    }
  }

  /// The contacts that peers know and the table does not.
  private func others(_ tokens: [ContactToken], _ hits: ContactHits) async -> [ContactToken: DirectoryEntry] {
    guard let finder, finder.hasPeers else { return [:] }
    let unknown = hits.unknown(of: tokens)
    guard !unknown.isEmpty else { return [:] }
    return Dictionary(await finder.find(unknown).map { ($0.token, $0) }) { first, _ in first }
  }
}
