import RelayCore

/// A fault that an operator can mend: what was tried, what came back, and what to do about it.
///
/// Commands print `description` and exit; nothing in it is secret.
package struct FederationError: Error, Sendable, Equatable, CustomStringConvertible {
  package enum Kind: String, Sendable {
    // Our own files.
    case missingAuthority = "missing-authority"
    case authorityExists = "authority-exists"
    case missingLeaf = "missing-leaf"
    case unreadableFile = "unreadable-file"
    case unwritableFile = "unwritable-file"
    case mixedPair = "mixed-pair"
    case otherName = "other-name"
    case noRollover = "no-rollover"
    case rolloverUnderWay = "rollover-under-way"
    case unknownSerial = "unknown-serial"
    case tooManyRevoked = "too-many-revoked"
    case revokedLeaf = "revoked-leaf"
    case busy = "busy"
    // Peering.
    case malformedInvitation = "malformed-invitation"
    case expiredInvitation = "expired-invitation"
    case ownInvitation = "own-invitation"
    case nameTaken = "name-taken"
    case nothingGranted = "nothing-granted"
    case urlFixed = "url-fixed"
    case unreachable = "unreachable"
    case privateAddress = "private-address"
    case wrongFingerprint = "wrong-fingerprint"
    case wrongCertificate = "wrong-certificate"
    case refused = "refused"
    case unexpectedAnswer = "unexpected-answer"
    case unknownPeer = "unknown-peer"
    case store = "store"
    // The listener.
    case cannotListen = "cannot-listen"
  }

  package let kind: Kind
  /// One or two sentences: what was tried and what came back.
  package let text: String
  /// One sentence: what the operator can do.
  package let remedy: String

  package init(_ kind: Kind, _ text: String, remedy: String) {
    self.kind = kind
    self.text = text
    self.remedy = remedy
  }

  package var description: String { "\(text) \(remedy)" }

  init(_ error: StoreError) {
    self.init(.store, "The store failed: \(error).", remedy: "Check storage.url and that the database is up.")
  }
}
