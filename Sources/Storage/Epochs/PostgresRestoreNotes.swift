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
    let result = try await read(
      .prepared("restore_notes", "SELECT kind, word, behind, noted FROM store_restores"))
    var notes: [String: RestoreNotes.Note] = [:]
    for index in result.rows {
      var row = result.cursor(row: index)
      let kind = try row.text()
      notes[kind] = RestoreNotes.Note(
        word: try row.text(), behind: .milliseconds(try row.bigint()), noted: try row.timestamp())
    }
    return RestoreNotes(
      setAside: notes[RestoreNotes.setAsideKind], claim: notes[RestoreNotes.claimKind],
      heldBack: notes[RestoreNotes.heldBackKind])
  }

  static func noteStep(_ kind: String, _ word: String, _ behind: Duration) -> PostgresStep {
    PostgresStep(
      .prepared(
        "note_restore",
        """
        INSERT INTO store_restores (kind, word, behind, noted)
        VALUES ($1::text, $2::text, $3::bigint, floor(extract(epoch FROM now()) * 1000)::bigint)
        ON CONFLICT (kind) DO UPDATE SET word = excluded.word, behind = excluded.behind, noted = excluded.noted
        """),
      PostgresParameters {
        $0.add(text: kind)
        $0.add(text: word)
        $0.add(bigint: Int64(behind / .milliseconds(1)))
      })
  }

  static func forgetStep(_ kind: String) -> PostgresStep {
    PostgresStep(
      .prepared("forget_restore_note", "DELETE FROM store_restores WHERE kind = $1::text"),
      PostgresParameters { $0.add(text: kind) })
  }
}
