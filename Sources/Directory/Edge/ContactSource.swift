package import RelayCore

/// Finds contacts for look-ups: in this process's table, or in the parts that other processes hold.
package protocol ContactSource: Sendable {
  /// To be asked before anything is charged.
  /// - Parameter tokens: that are to be found; nil: any may be.
  /// - Throws: `.unavailable` when it is known that the look-up cannot be answered.
  func demandReady(for tokens: [ContactToken]?) throws(Problem)

  /// The contacts of the whole directory; about, where others hold them.
  var count: Int { get }

  /// - Throws: `.unavailable` when what holds some of the tokens cannot be asked.
  func find(_ wanted: WantedContacts) async throws(Problem) -> FoundContacts
}

/// A question to the directory.
package struct WantedContacts: Sendable {
  package enum Telling: Sendable, Equatable {
    /// The entries of all that are known.
    case entries
    /// With them, what has changed since a place; nil: nothing is known of any place.
    case changes(since: DirectoryPlace?)
  }

  /// In any order, repeats included.
  package let tokens: [ContactToken]
  package let telling: Telling

  package init(_ tokens: [ContactToken], telling: Telling = .entries) {
    self.tokens = tokens
    self.telling = telling
  }
}

package struct FoundContacts: Sendable {
  /// Ascending by index, a repeated token each time.
  let hits: [ContactHits.Hit]
  /// The relays 1 and up of `hits`.
  let names: [RelayName]
  /// The place to ask from next, reached before `hits` were found. Only where changes are told.
  var next: DirectoryPlace?
  /// The tokens that may have changed; nil: that is not known, or not told.
  var changed: [ContactToken]?
}

/// The table of this process.
package struct LocalContacts: ContactSource {
  private let view: DirectoryView

  package init(_ view: DirectoryView) { self.view = view }

  package var count: Int { view.table.count }

  package func demandReady(for tokens: [ContactToken]?) throws(Problem) {
    guard view.isReady else { throw Self.notReady }
  }

  package func find(_ wanted: WantedContacts) async throws(Problem) -> FoundContacts {
    try find(wanted.tokens, wanted.telling)
  }

  private func find(_ tokens: [ContactToken], _ telling: WantedContacts.Telling) throws(Problem) -> FoundContacts {
    var place: DirectoryPlace?
    if case .changes = telling {
      // The place that the table has reached first, the table after it: whoever comes back with it misses nothing.
      guard let cursor = view.recent.cursor else { throw Self.notReady }
      place = cursor
    }
    var hits: [ContactHits.Hit] = []
    view.withEntries(of: tokens.span) { index, entry in hits.append(ContactHits.Hit(index: index, entry: entry)) }
    var changed: [ContactToken]?
    if case .changes(let since?) = telling { changed = view.recent.changed(tokens, since: since) }
    // After they were found: every entry's relay has a name.
    return FoundContacts(hits: hits, names: view.relays.names, next: place, changed: changed)
  }

  private static let notReady = Problem(.unavailable, retryAfter: .seconds(1))
}
