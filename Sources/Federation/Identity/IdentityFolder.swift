import Crypto
package import RelayCore
import X509

/// The folder `federation.directory`: `ca.pem`, `ca.key`, `leaf.pem` (leaf, then CA) and `leaf.key`.
///
/// Keys are readable by their owner alone. Each file is replaced whole. `issue` makes a new key and `renew` keeps it,
/// so that a renewal replaces one file and no reader can meet a certificate with another key's.
package struct IdentityFolder: Sendable {
  package let path: String

  package init(path: String) {
    self.path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
  }

  package var authorityFile: String { "\(path)/ca.pem" }
  package var authorityKeyFile: String { "\(path)/ca.key" }
  package var leafFile: String { "\(path)/leaf.pem" }
  package var leafKeyFile: String { "\(path)/leaf.key" }

  /// Makes this operator's CA.
  ///
  /// - Parameter replacing: whether an existing CA may be destroyed. Every peer then has to be invited again.
  /// - Returns: the new CA's key fingerprint and expiry.
  /// - Throws: `.authorityExists`, `.unwritableFile`; the files are as they were then.
  @discardableResult
  package func createAuthority(
    for name: RelayName, replacing: Bool = false, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    if !replacing, let existing = [authorityFile, authorityKeyFile].first(where: SecretFile.exists) {
      throw FederationError(
        .authorityExists, "\(existing) exists already.",
        remedy: "Keep it: peers know this relay by it. To replace it and peer anew with everyone, say so explicitly.")
    }
    let authority = try making { try CertificateAuthority(for: name, now: now) }
    try writing(path) { () throws(SecretFile.Failure) in try SecretFile.makeFolder(path) }
    try write(try pem(authority.key), to: authorityKeyFile, mode: 0o600)
    try write(try pem([authority.certificate]), to: authorityFile, mode: 0o644)
    return IssuedCertificate(authority.certificate)
  }

  /// Issues a leaf with a new key for `name` at `endpoint`.
  @discardableResult
  package func issueLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    let authority = try loadAuthority()
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let leaf = try making { try authority.issue(for: name, at: endpoint, key: key.publicKey, now: now) }
    try write(try pem(key), to: leafKeyFile, mode: 0o600)
    try write(try pem([leaf, authority.certificate]), to: leafFile, mode: 0o644)
    return IssuedCertificate(leaf)
  }

  /// Issues a new leaf for the key that is there. Running processes take it up within seconds; connections stay.
  @discardableResult
  package func renewLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    let authority = try loadAuthority()
    let key = try loadKey(leafKeyFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
    let leaf = try making { try authority.issue(for: name, at: endpoint, key: key.publicKey, now: now) }
    try write(try pem([leaf, authority.certificate]), to: leafFile, mode: 0o644)
    return IssuedCertificate(leaf)
  }

  /// Reads what a relay serves with; `ca.key` is not needed, and may be kept elsewhere.
  ///
  /// Dates are not judged: a relay whose leaf has ended still serves its own clients.
  /// - Throws: `.missingAuthority`, `.missingLeaf`, `.unreadableFile`; `.mixedPair` when key, leaf and CA do not
  ///   belong together; `.otherName` when the leaf names another relay.
  package func load(for name: RelayName) throws(FederationError) -> FederationCredentials {
    let authority = try loadCertificates(
      authorityFile, missing: .missingAuthority, remedy: "Run `relay ca init`, then `relay ca issue`.")
    let chain = try loadCertificates(leafFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
    let key = try loadKey(leafKeyFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
    let leaf = chain[0]
    guard leaf.publicKey == key.publicKey else {
      throw FederationError(
        .mixedPair, "The certificate in \(leafFile) is not that of the key in \(leafKeyFile): one of them is older.",
        remedy: "Run `relay ca issue` to make a new pair.")
    }
    guard leaf.isIssued(by: authority[0]) else {
      throw FederationError(
        .mixedPair, "The certificate in \(leafFile) was not signed by the CA in \(authorityFile).",
        remedy: "Run `relay ca issue` to make a new pair.")
    }
    guard leaf.relayName == name else {
      throw FederationError(
        .otherName,
        "The certificate in \(leafFile) is for \(leaf.relayName.map { "\"\($0)\"" } ?? "no relay"), not for"
          + " \"\(name)\".",
        remedy: "Set `name` to what it was, or run `relay ca issue`.")
    }
    return try making { try FederationCredentials(name: name, authority: authority[0], leaf: leaf, key: key) }
  }

  private func loadAuthority() throws(FederationError) -> CertificateAuthority {
    let certificates = try loadCertificates(authorityFile, missing: .missingAuthority, remedy: "Run `relay ca init`.")
    let key = try loadKey(authorityKeyFile, missing: .missingAuthority, remedy: "Put the CA's key back, from a backup.")
    guard certificates[0].publicKey == key.publicKey else {
      throw FederationError(
        .mixedPair, "The certificate in \(authorityFile) is not that of the key in \(authorityKeyFile).",
        remedy: "Put the pair back from a backup.")
    }
    return CertificateAuthority(certificate: certificates[0], key: key)
  }
}

/// What `relay ca` reports of a certificate that it made.
package struct IssuedCertificate: Sendable, Equatable {
  /// SHA-256 of the public key.
  package let fingerprint: [UInt8]
  package let expires: Timestamp

  init(_ certificate: Certificate) {
    fingerprint = certificate.keyFingerprint
    expires = certificate.validUntil
  }
}
