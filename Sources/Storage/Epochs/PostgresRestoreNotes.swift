package import RelayCore

extension PostgresStorage {
  package func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError) {
    _ = try await write([
      peer.map { Self.noteStep(RestoreNotes.claimKind, $0.text, behind) } ?? Self.forgetStep(RestoreNotes.claimKind)
    ])
  }

  package func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError) {
    let kind = RestoreNotes.heldBackKind
    _ = try await write([isHeldBack ? Self.noteStep(kind, "", .zero) : Self.forgetStep(kind)])
  }

  package func restoreNotes() async throws(StoreError) -> RestoreNotes {
    let result = try await read("restore_notes", "SELECT kind, word, behind, noted FROM store_restores")
    let rows = try result.all { (row) throws(StoreError) in (try row.text(), try RestoreNotes.Note(row: &row)) }
    let notes = Dictionary(rows) { _, later in later }
    return RestoreNotes(
      setAside: notes[RestoreNotes.setAsideKind], claim: notes[RestoreNotes.claimKind],
      heldBack: notes[RestoreNotes.heldBackKind])
  }

  static func noteStep(_ kind: String, _ word: String, _ behind: Duration) -> PostgresStep {
    PostgresStep(
      "note_restore",
      """
      INSERT INTO store_restores (kind, word, behind, noted)
      VALUES (
        \(kind), \(word), \(Int64(behind / .milliseconds(1))), floor(extract(epoch FROM now()) * 1000)::bigint)
      ON CONFLICT (kind) DO UPDATE SET word = excluded.word, behind = excluded.behind, noted = excluded.noted
      """)
  }

  static func forgetStep(_ kind: String) -> PostgresStep {
    PostgresStep("forget_restore_note", "DELETE FROM store_restores WHERE kind = \(kind)")
  }
}

extension RestoreNotes.Note {
  /// Three columns.
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(word: try row.text(), behind: .milliseconds(try row.bigint()), noted: try row.timestamp())
  }
}
