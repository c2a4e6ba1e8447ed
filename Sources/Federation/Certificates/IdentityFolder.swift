import Crypto
import Glibc
package import RelayCore
import X509

/// The folder `federation.directory` (docs/federation.md, "Identity", lists its files).
///
/// Keys are readable by their owner alone. Each file is replaced whole, and one command works at a time. If a command
/// is killed at any point, a relay can serve with the files it left, and the command can be run again.
package struct IdentityFolder: Sendable {
  package let path: String

  package init(path: String) {
    self.path = path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
  }

  package var authorityFile: String { "\(path)/ca.pem" }
  package var authorityKeyFile: String { "\(path)/ca.key" }
  /// The CA that takes over, during a roll-over.
  package var nextAuthorityFile: String { "\(path)/ca-next.pem" }
  package var nextAuthorityKeyFile: String { "\(path)/ca-next.key" }
  /// The CA before the last roll-over, for the record.
  package var formerAuthorityFile: String { "\(path)/ca-former.pem" }
  package var leafFile: String { "\(path)/leaf.pem" }
  package var leafKeyFile: String { "\(path)/leaf.key" }
  /// The key of the leaf that is being issued: whoever finds it beside a leaf that it fits uses it.
  var nextLeafKeyFile: String { "\(path)/leaf-next.key" }
  /// The signed statement of our CA.
  package var statementFile: String { "\(path)/authority.json" }
  /// The list of leaves that our CA issued.
  package var issuedFile: String { "\(path)/issued.json" }

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
    return try locked { () throws(FederationError) in
      // The statement and the leaves of a former CA are not this CA's.
      for file in [statementFile, issuedFile, nextAuthorityFile, nextAuthorityKeyFile] { try remove(file) }
      try write(try pem(authority.key), to: authorityKeyFile, mode: 0o600)
      try write(try pem([authority.certificate]), to: authorityFile, mode: 0o644)
      return IssuedCertificate(authority.certificate)
    }
  }

  /// Issues a leaf with a new key for `name` at `endpoint`.
  @discardableResult
  package func issueLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    try locked { () throws(FederationError) in
      let authority = try issuingAuthority()
      return try issueLeaf(by: authority, for: name, at: endpoint, now: now)
    }
  }

  /// Issues a new leaf for the key that is there. Running processes take it up within seconds; connections stay.
  /// - Throws: `.revokedLeaf` when the leaf in place is revoked: whoever has its key must not be certified again.
  @discardableResult
  package func renewLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate {
    try locked { () throws(FederationError) in
      try renewLeaf(by: issuingAuthority(), key: keyToRenew(now: now), for: name, at: endpoint, now: now)
    }
  }

  /// As `renewLeaf`, once the present leaf does not last for `remaining` any more.
  /// - Returns: nil when nothing was done.
  package func renewLeaf(
    for name: RelayName, at endpoint: PeerEndpoint, ifWithin remaining: Duration, now: Timestamp
  ) throws(FederationError) -> IssuedCertificate? {
    try locked { () throws(FederationError) in
      let authority = try issuingAuthority()
      let key = try keyToRenew(now: now)
      // A leaf that the CA did not sign, or that another key goes with, has to be replaced whatever its end.
      if let leaf = try presentLeaf(), leaf.isIssued(by: authority.certificate), leaf.publicKey == key.publicKey,
        now.adding(remaining) < leaf.validUntil
      {
        return nil
      }
      return try renewLeaf(by: authority, key: key, for: name, at: endpoint, now: now)
    }
  }

  /// Reads what a relay serves with; `ca.key` is not needed, and may be kept elsewhere.
  ///
  /// Dates are not judged: a relay whose leaf has ended still serves its own clients.
  /// - Throws: `.missingAuthority`, `.missingLeaf`, `.unreadableFile`; `.mixedPair` when key, leaf and CA do not
  ///   belong together; `.otherName` when the leaf names another relay.
  package func load(for name: RelayName) throws(FederationError) -> FederationCredentials {
    for _ in 1..<Self.readingsMax {
      do throws(FederationError) {
        return try loadOnce(for: name)
      } catch {
        // A command may have replaced one file between our readings of two, and not the other yet.
        guard error.kind == .mixedPair else { throw error }
        usleep(Self.readingPauseMicroseconds)
      }
    }
    return try loadOnce(for: name)
  }

  /// A command that is under way has a tenth of a second to come to the next file.
  private static let readingsMax = 20
  private static let readingPauseMicroseconds: UInt32 = 5000

  private func loadOnce(for name: RelayName) throws(FederationError) -> FederationCredentials {
    let present = try loadCertificates(
      authorityFile, missing: .missingAuthority, remedy: "Run `relay ca init`, then `relay ca issue`.")
    let chain = try loadCertificates(leafFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
    let leaf = chain[0]
    let key = try loadKey(of: leaf)
    let authority = leaf.isIssued(by: present[0]) ? present[0] : try nextAuthority()
    guard let authority, leaf.isIssued(by: authority) else {
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
    return try making { try FederationCredentials(name: name, authority: authority, leaf: leaf, key: key) }
  }

  private func loadKey(of leaf: Certificate) throws(FederationError) -> Certificate.PrivateKey {
    let key = try loadKey(leafKeyFile, missing: .missingLeaf, remedy: "Run `relay ca issue`.")
    if leaf.publicKey == key.publicKey { return key }
    if SecretFile.exists(nextLeafKeyFile) {
      let next = try loadKey(nextLeafKeyFile, missing: .mixedPair, remedy: "Run `relay ca issue`.")
      if leaf.publicKey == next.publicKey { return next }
    }
    throw FederationError(
      .mixedPair, "The certificate in \(leafFile) is not that of the key in \(leafKeyFile): one of them is older.",
      remedy: "Run `relay ca issue` to make a new pair.")
  }
}

/// The report of `relay ca` about a certificate that it made.
package struct IssuedCertificate: Sendable, Equatable {
  /// SHA-256 of the public key.
  package let fingerprint: [UInt8]
  package let expires: Timestamp

  /// In hexadecimal.
  package var fingerprintText: String { fingerprint.hex }
  /// For a CA: the words that peers of its operator see.
  package var words: AuthorityWords { AuthorityWords(fingerprint) }

  init(_ certificate: Certificate) {
    fingerprint = certificate.keyFingerprint
    expires = certificate.validUntil
  }
}
