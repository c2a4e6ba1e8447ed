import RelayConfiguration
import RelayCore

/// Whether the store was put back to an older state, and by whose word.
struct RestoreChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] { [DoctorCheck(group: .storage, name: "restores") { await restores() }] }

  private func restores() async -> [Finding] {
    guard let storage = await site.usableStorage() else { return [DoctorSite.withoutStore] }
    do {
      let notes = try await storage.restoreNotes()
      return [
        notes.heldBack.map(Self.heldBack), notes.claim.map(Self.claimed), Self.setAside(notes.setAside, at: .now),
      ].compactMap(\.self)
    } catch {
      return [DoctorSite.withoutStore]
    }
  }

  private static func setAside(_ note: RestoreNotes.Note?, at now: Timestamp) -> Finding {
    guard let note else { return .ok("the store was never put back to an older state") }
    let text =
      "one-time prekeys were set aside on \(note.noted.iso8601), by the word of \(note.word)\(distance(note))"
    guard now.millis - note.noted.millis < newsMillis else { return .ok(text) }
    return .warned(
      text,
      remedy: "Clients refill by themselves. If the store was not put back, ask whose word it was how it came to it.")
  }

  private static func heldBack(_ note: RestoreNotes.Note) -> Finding {
    Finding.warned(
      "one-time prekeys are held back since \(note.noted.iso8601): nobody answers who remembers how far the store "
        + "had come",
      remedy:
        "Bring Redis or a peer back, or suspend peers that are gone for good. If the store was put back, or nobody can "
        + "tell, run `relay storage restored`: clients refill by themselves."
    ).named("prekeys held back")
  }

  private static func claimed(_ note: RestoreNotes.Note) -> Finding {
    Finding.warned(
      "\(note.word) alone said on \(note.noted.iso8601) that the store was put back to an older state"
        + "\(distance(note)): not believed",
      remedy:
        "If it was put back, run `relay storage restored`. If not, the peer errs or lies: ask its operator, or run "
        + "`relay peer suspend \(note.word)`."
    ).named("restore claimed")
  }

  private static func distance(_ note: RestoreNotes.Note) -> String {
    note.behind > .zero ? ", \(note.behind.components.seconds) s behind" : ""
  }

  /// How long it is news.
  private static let newsMillis = 7 * Timestamp.millisPerDay
}
