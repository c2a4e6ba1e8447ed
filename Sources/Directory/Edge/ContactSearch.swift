import RelayCore

/// Finds contacts: in the directory, and those that it does not know at the peers that are asked instead of copied.
struct ContactSearch: Sendable {
  private let source: any ContactSource
  private let finder: (any ContactFinder)?
  private let factors = (high: UInt64.random(in: .min ... .max) | 1, low: UInt64.random(in: .min ... .max) | 1)

  /// - Parameter finder: nil where no peer can be asked.
  init(source: any ContactSource, finder: (any ContactFinder)?) {
    self.source = source
    self.finder = finder
  }

  /// The directory's answer to one request.
  struct Result {
    let hits: ContactHits
    fileprivate let found: FoundContacts
    /// The place to ask from next; nil unless changes were asked for.
    var next: DirectoryPlace? { found.next }
  }

  /// - Throws: as `ContactSource.find`.
  func find(_ wanted: WantedContacts) async throws(Problem) -> Result {
    let found = try await source.find(wanted)
    return Result(hits: ContactHits(found.hits, of: wanted.tokens, factors: factors), found: found)
  }

  /// - Throws: as `ContactSource.find`.
  func entry(of token: ContactToken) async throws(Problem) -> DirectoryEntry? {
    let found = try await source.find(WantedContacts([token]))
    if let entry = found.hits.first?.entry, entry.relay <= found.names.count {
      return DirectoryEntry(
        token: token, relay: entry.relay == 0 ? nil : found.names[entry.relay - 1], supportsSMS: entry.supportsSMS,
        voice: entry.voice)
    }
    guard let finder, finder.hasPeers else { return nil }
    return await finder.find([token]).first
  }

  /// `{"contacts": [...]}`: what is known of `tokens` in their order, each once.
  /// - Parameter result: of `tokens`.
  func answer(_ tokens: [ContactToken], _ result: Result) async -> [UInt8] {
    let others = await others(tokens, result.hits)
    var answer = ContactAnswer(room: result.hits.distinct.count + others.count)
    write(tokens, result, others, to: &answer) { _ in true }
    return answer.finish()
  }

  /// The answer to a request for changes.
  ///
  /// Answers of peers that are only asked are part of every answer: their changes are not announced.
  /// - Parameters:
  ///   - result: of `tokens`. If it does not know what has changed, everything that is known is told.
  ///   - next: that of `result`.
  func changes(of tokens: [ContactToken], _ result: Result, next: DirectoryPlace) async -> [UInt8] {
    let others = await others(tokens, result.hits)
    guard let changed = result.found.changed else {
      var answer = ContactAnswer(room: result.hits.distinct.count + others.count)
      write(tokens, result, others, to: &answer) { _ in true }
      return answer.finish(removed: [], cursor: next, isComplete: true)
    }
    var told = Set(changed)
    var answer = ContactAnswer(room: told.count + others.count)
    write(tokens, result, others, to: &answer) { told.remove($0) != nil }
    told.subtract(others.keys)
    // In the order of the request, though nobody needs one.
    let removed = changed.filter { told.remove($0) != nil }
    return answer.finish(removed: removed, cursor: next, isComplete: false)
  }

  /// Writes what is known in the order of `tokens`.
  /// - Parameter isWanted: asked of each distinct token that the directory knows; what is not wanted is left out.
  private func write(
    _ tokens: [ContactToken], _ result: Result, _ others: [ContactToken: DirectoryEntry],
    to answer: inout ContactAnswer, _ isWanted: (ContactToken) -> Bool
  ) {
    let (hits, names) = (result.hits, result.found.names)
    var unwritten = others
    var next = 0
    for hit in hits.distinct {
      // Only where peers are asked there is anything between what the directory knows.
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

  /// The contacts that peers know and the directory does not.
  private func others(_ tokens: [ContactToken], _ hits: ContactHits) async -> [ContactToken: DirectoryEntry] {
    guard let finder, finder.hasPeers else { return [:] }
    let unknown = hits.unknown(of: tokens)
    guard !unknown.isEmpty else { return [:] }
    return Dictionary(await finder.find(unknown).map { ($0.token, $0) }) { first, _ in first }
  }
}
