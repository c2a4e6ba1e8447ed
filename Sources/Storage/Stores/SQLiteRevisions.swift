// Numbers that rise with each change of a subject, by whatever process.

import GRDB
import RelayCore

extension Database {
  /// `CommonSchema` says what each counts.
  enum Revision: String {
    case accounts, peers
    case listing
    case listingGeneration = "listing-generation"
    case listingPruned = "listing-pruned"
    case directoryPruned = "directory-pruned"
    case contactPasses = "contact-passes"
    case contactPassesTold = "contact-passes-told"
    case wakeUps = "wake-ups"
  }

  func revision(_ subject: Revision) throws -> Int64 {
    try Fields.valid(row("SELECT value FROM revisions WHERE subject = \(subject.rawValue)")).integer(0)
  }
  func raise(_ subject: Revision) throws {
    try run("UPDATE revisions SET value = value + 1 WHERE subject = \(subject.rawValue)")
  }
  func set(_ subject: Revision, to value: Int64) throws {
    try run("UPDATE revisions SET value = \(value) WHERE subject = \(subject.rawValue)")
  }
}
