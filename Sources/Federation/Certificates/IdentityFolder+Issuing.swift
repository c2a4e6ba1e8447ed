import Crypto
import RelayCore
import X509

// How leaves are issued, such that a relay can serve from the files at every moment. Callers hold the folder's lock.
extension IdentityFolder {
  /// The new key stands beside the old one until the leaf has been replaced.
  func issueLeaf(
    by authority: CertificateAuthority, for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    try finishIssuing()
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let leaf = try making { try authority.issue(for: name, at: endpoint, key: key.publicKey, now: now) }
    // Noted first: a leaf that nobody has noted could not be revoked.
    try note(leaf, now: now)
    try write(try pem(key), to: nextLeafKeyFile, mode: 0o600)
    try write(try pem([leaf, authority.certificate]), to: leafFile, mode: 0o644)
    try move(nextLeafKeyFile, to: leafKeyFile)
    return IssuedCertificate(leaf)
  }

  func renewLeaf(
    by authority: CertificateAuthority, key: Certificate.PrivateKey, for name: RelayName, at endpoint: PeerEndpoint,
    now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    let leaf = try making { try authority.issue(for: name, at: endpoint, key: key.publicKey, now: now) }
    try note(leaf, now: now)
    try write(try pem([leaf, authority.certificate]), to: leafFile, mode: 0o644)
    return IssuedCertificate(leaf)
  }

  func keyToRenew(now: Timestamp) throws(FederationError) -> Certificate.PrivateKey {
    try finishIssuing()
    if let leaf = try presentLeaf(), try loadIssued(now: now).revokedSerials.contains(leaf.serial) {
      throw FederationError(
        .revokedLeaf, "The certificate in \(leafFile) is revoked, and its key is not certified again.",
        remedy: "Run `relay ca issue`, which makes a new key.")
    }
    return try loadKey(leafKeyFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
  }

  /// Does what an issuing that was killed has left undone: its leaf is in place, its key not yet.
  func finishIssuing() throws(FederationError) {
    guard SecretFile.exists(nextLeafKeyFile), let leaf = try presentLeaf() else { return }
    let key = try loadKey(nextLeafKeyFile, missing: .mixedPair, remedy: "Run `relay ca issue`.")
    if key.publicKey == leaf.publicKey { try move(nextLeafKeyFile, to: leafKeyFile) }
  }

  /// The CA that issues and signs just now: the present one, or its successor once the leaf is of that.
  func issuingAuthority() throws(FederationError) -> CertificateAuthority {
    if let next = try nextAuthority(), try presentLeaf()?.isIssued(by: next) == true {
      return CertificateAuthority(certificate: next, key: try nextAuthorityKey(of: next))
    }
    let certificates = try loadCertificates(authorityFile, missing: .missingAuthority, remedy: "Run `relay ca init`.")
    let key = try loadKey(
      authorityKeyFile, missing: .missingAuthority, remedy: "Put the CA's key back, from a backup.")
    guard certificates[0].publicKey == key.publicKey else {
      throw FederationError(
        .mixedPair, "The certificate in \(authorityFile) is not that of the key in \(authorityKeyFile).",
        remedy: "Put the pair back from a backup.")
    }
    return CertificateAuthority(certificate: certificates[0], key: key)
  }

  /// - Returns: nil when no roll-over is under way.
  func nextAuthority() throws(FederationError) -> Certificate? {
    guard SecretFile.exists(nextAuthorityFile) else { return nil }
    do throws(FederationError) {
      return try loadCertificates(nextAuthorityFile, missing: .noRollover, remedy: "Try again.")[0]
    } catch {
      // Finished or cancelled just now.
      guard error.kind == .noRollover else { throw error }
      return nil
    }
  }

  /// The key of `next`, which a finished roll-over that was killed has moved already.
  func nextAuthorityKey(of next: Certificate) throws(FederationError) -> Certificate.PrivateKey {
    for file in [nextAuthorityKeyFile, authorityKeyFile] where SecretFile.exists(file) {
      let key = try loadKey(file, missing: .missingAuthority, remedy: "Put the CA's key back, from a backup.")
      if key.publicKey == next.publicKey { return key }
    }
    throw FederationError(
      .missingAuthority, "There is no key that fits \(nextAuthorityFile).",
      remedy: "Put \(nextAuthorityKeyFile) back from a backup, or run `relay ca rollover cancel`.")
  }

  /// - Returns: nil when none was issued.
  func presentLeaf() throws(FederationError) -> Certificate? {
    guard SecretFile.exists(leafFile) else { return nil }
    return try loadCertificates(leafFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")[0]
  }

  func note(_ leaf: Certificate, now: Timestamp) throws(FederationError) {
    var issued = try loadIssued(now: now)
    issued.note(serial: leaf.serial, made: now, expires: leaf.validUntil)
    try save(issued)
  }
}
