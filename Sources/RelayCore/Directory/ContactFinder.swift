/// Finds contacts that no copy of a listing is kept of, by asking the peers. Implemented by Federation, used by
/// Directory.
package protocol ContactFinder: Sendable {
  /// Whether there is any peer to be asked just now: where there is none, nobody need look for what is unknown.
  var hasPeers: Bool { get }
  /// - Returns: entries for those of `tokens` that a peer knows, in no order, at most one each; peers that do not
  ///   answer in time are passed over.
  func find(_ tokens: [ContactToken]) async -> [DirectoryEntry]
}
