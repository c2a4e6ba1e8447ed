// Notes on a store that was put back to an older state, for later reports (`relay doctor`).

/// By whose word a store is an older state of itself.
package enum RestoreWord: Sendable, Equatable {
  /// A process that had written a newer epoch itself.
  case process
  case redis
  /// Two peers that agree, or more.
  case peers([RelayName])
  /// `relay storage restored`.
  case command

  package var text: String {
    switch self {
    case .process: "a running process"
    case .redis: "Redis"
    case .peers(let names): "the peers \(names.map(\.text).joined(separator: ", "))"
    case .command: "the operator"
    }
  }
}

package struct RestoreNotes: Sendable, Equatable {
  package struct Note: Sendable, Equatable {
    /// `RestoreWord.text`, or the name of the peer that claims it alone.
    package let word: String
    /// How far the store was behind that word.
    package let behind: Duration
    /// By the store's clock.
    package let noted: Timestamp
    package init(word: String, behind: Duration, noted: Timestamp) {
      self.word = word
      self.behind = behind
      self.noted = noted
    }
  }

  /// The last time one-time keys were set aside.
  package let setAside: Note?
  /// One peer says that the store is an older state, and nobody else: it was not believed.
  package let claim: Note?
  /// One-time keys are held back, since a process does not know whether the store is an older state; its `word` is
  /// empty.
  package let heldBack: Note?
  package init(setAside: Note?, claim: Note?, heldBack: Note?) {
    self.setAside = setAside
    self.claim = claim
    self.heldBack = heldBack
  }

  /// The rows that stores keep them in.
  package static let setAsideKind = "set-aside"
  package static let claimKind = "claim"
  package static let heldBackKind = "held-back"
}

/// One witness's statement about the store's epoch.
package struct EpochTestimony: Sendable, Equatable {
  /// nil for Redis.
  package let peer: RelayName?
  /// The highest epoch that it remembered before, 0 for none; nil when it did not answer.
  package let epoch: Int64?
  package init(peer: RelayName?, epoch: Int64?) {
    self.peer = peer
    self.epoch = epoch
  }
}
