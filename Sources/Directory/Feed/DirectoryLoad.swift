import RelayCore
import Synchronization

/// Takes the directory, or a part of it, into a new table, as the store hands it out: some entries at a time, in no
/// order, and a token perhaps more than once.
final class DirectoryLoad: Sendable {
  private struct State {
    /// Tokens that two peers list: the store is asked which of them it is.
    var contested: Set<ContactToken> = []
    /// They were too many to remember.
    var isOverfull = false
    var failure: FollowFailure?
    /// Entries of one relay mostly come one after the other.
    var last: (name: RelayName?, number: Int?) = (nil, 0)
  }

  let table: TokenTable
  private let relays: RelayNumbers
  private let part: DirectoryPartition
  private let contestedMax: Int
  private let state = Mutex(State())

  /// - Parameters:
  ///   - part: tokens of others are left out.
  ///   - contestedMax: how many tokens that two peers list are remembered.
  init(
    relays: RelayNumbers, part: DirectoryPartition = .whole, contestedMax: Int = 200_000
  ) throws(FollowFailure) {
    self.relays = relays
    self.part = part
    self.contestedMax = contestedMax
    table = try FollowFailure.writing { () throws(TokenTable.OutOfMemory) in try TokenTable() }
  }

  /// Takes some entries. Called by one thread at a time; after a failure it does nothing.
  func take(_ entries: [DirectoryEntry]) {
    state.withLock { state in
      guard state.failure == nil else { return }
      var part: [(ContactToken, TokenEntry)] = []
      part.reserveCapacity(entries.count)
      for entry in entries where self.part.holds(entry.token) {
        if entry.relay != state.last.name { state.last = (entry.relay, relays.number(of: entry.relay)) }
        guard let number = state.last.number else { continue }
        part.append((entry.token, TokenEntry(relay: number, supportsSMS: entry.supportsSMS, voice: entry.voice)))
      }
      do throws(TokenTable.OutOfMemory) {
        try table.add(part) { if !state.isOverfull { state.contested.insert($0) } }
        guard state.contested.count > contestedMax else { return }
        (state.contested, state.isOverfull) = ([], true)
      } catch {
        state.failure = .memory(error.bytes)
      }
    }
  }

  /// The store has handed everything out.
  /// - Returns: the tokens that are still to be looked up, in no order; nil when they were too many to remember: any
  ///   token of a peer may be one.
  func finish() throws(FollowFailure) -> [ContactToken]? {
    let (contested, failure) = state.withLock { state in
      defer { state.contested = [] }
      return (state.isOverfull ? nil : Array(state.contested), state.failure)
    }
    if let failure { throw failure }
    return contested
  }
}
