package import RelayCore
import X509

// The way from one CA to the next (docs/federation.md, "Rolling the CA over"). Every step can be repeated, and after
// each single write a relay can serve from the files.
extension IdentityFolder {
  /// Makes the next CA, unless there is one, and says so in the statement.
  /// - Returns: the next CA's key fingerprint and expiry.
  package func beginRollover(for name: RelayName, now: Timestamp) throws(FederationError) -> IssuedCertificate {
    try locked { () throws(FederationError) in
      let present = try issuingAuthority()
      let begun = try nextAuthority()
      let next = if let begun { begun } else { try makeNextAuthority(for: name, now: now) }
      guard next.publicKey != present.certificate.publicKey else { throw Self.finishing }
      // Without its key it could never take over.
      _ = try nextAuthorityKey(of: next)
      try state(by: present, next: next, for: name, now: now)
      return IssuedCertificate(next)
    }
  }

  /// The next CA. - Throws: `.noRollover` when none is under way.
  package func rollover() throws(FederationError) -> IssuedCertificate {
    guard let next = try nextAuthority() else { throw Self.none }
    return IssuedCertificate(next)
  }

  /// The next CA issues the leaf anew, and nothing else: peers that know it as the next one accept leaves of both,
  /// until `finishRollover` has it speak for itself. So the leaf can be carried to other hosts first. Repeating it
  /// does nothing.
  /// - Returns: the leaf's key fingerprint and expiry.
  package func issueNextLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    try locked { () throws(FederationError) in try leafOfNextAuthority(for: name, at: endpoint, now: now).leaf }
  }

  private func leafOfNextAuthority(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> (authority: CertificateAuthority, leaf: IssuedCertificate) {
    guard let next = try nextAuthority() else { throw Self.none }
    let authority = CertificateAuthority(certificate: next, key: try nextAuthorityKey(of: next))
    // With this it presents the new CA: peers that know it as the next one go on.
    if let leaf = try presentLeaf(), leaf.isIssued(by: next) { return (authority, IssuedCertificate(leaf)) }
    return (authority, try issueLeaf(by: authority, for: name, at: endpoint, now: now))
  }

  /// The next CA becomes the CA: it issues the leaf anew, speaks for itself, and takes the old one's place. Once peers
  /// have heard it, leaves of the old one prove nothing any more.
  ///
  /// Whether the peers know it is for the caller to ask first.
  /// - Returns: the CA's key fingerprint and expiry.
  package func finishRollover(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    try locked { () throws(FederationError) in
      let authority = try leafOfNextAuthority(for: name, at: endpoint, now: now).authority
      let next = authority.certificate
      try state(by: authority, next: nil, for: name, now: now)
      let former = try loadCertificates(authorityFile, missing: .missingAuthority, remedy: "Run `relay ca init`.")
      if former[0].publicKey != next.publicKey { try write(try pem(former), to: formerAuthorityFile, mode: 0o644) }
      if SecretFile.exists(nextAuthorityKeyFile) { try move(nextAuthorityKeyFile, to: authorityKeyFile) }
      try move(nextAuthorityFile, to: authorityFile)
      return IssuedCertificate(next)
    }
  }

  /// Gives the next CA up. Peers forget it with the next statement that they read.
  package func cancelRollover(for name: RelayName, now: Timestamp) throws(FederationError) {
    try locked { () throws(FederationError) in
      guard let next = try nextAuthority() else { throw Self.none }
      let present = try issuingAuthority()
      guard next.publicKey != present.certificate.publicKey else { throw Self.finishing }
      try state(by: present, next: nil, for: name, now: now)
      try remove(nextAuthorityFile)
      try remove(nextAuthorityKeyFile)
    }
  }

  private func makeNextAuthority(for name: RelayName, now: Timestamp) throws(FederationError) -> Certificate {
    let next = try making { try CertificateAuthority(for: name, now: now) }
    try write(try pem(next.key), to: nextAuthorityKeyFile, mode: 0o600)
    try write(try pem([next.certificate]), to: nextAuthorityFile, mode: 0o644)
    return next.certificate
  }

  private static let none = FederationError(
    .noRollover, "No roll-over of the CA is under way.", remedy: "`relay ca rollover begin` begins one.")
  private static let finishing = FederationError(
    .rolloverUnderWay, "The roll-over of the CA is half finished: the leaf is the new CA's already.",
    remedy: "Run `relay ca rollover finish` again.")
}
