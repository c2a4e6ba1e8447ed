import RelayCore
import X509

/// Why a peer's statement is not taken up. For the log.
enum StatementFault: Error, Equatable, CustomStringConvertible {
  case otherName(RelayName)
  /// Neither the CA that we know nor the successor that it named.
  case unknownSigner
  case wrongSignature
  /// It calls another CA the present one than the one that signed it.
  case otherAuthority
  case unfitSuccessor
  /// Put back from a backup, or served by a process with older files.
  case older

  var description: String {
    switch self {
    case .otherName(let name): "it is a statement of \(name)"
    case .unknownSigner: "it is signed by a CA that is neither the known one nor its named successor"
    case .wrongSignature: "its signature does not verify"
    case .otherAuthority: "it names another CA than the one that signed it"
    case .unfitSuccessor: "the successor that it names is no CA of that relay"
    case .older: "it is older than one that was taken up"
    }
  }
}

/// The changes that a statement makes to a peer.
struct TrustChange: Sendable, Equatable {
  let trust: PeerTrust
  /// DER.
  let caCertificate: [UInt8]
}

/// The rules by which trust in a peer moves on, and only these: its CA's own word, and the word of the successor that
/// its CA named.
extension SignedStatement {
  /// - Returns: nil when it was taken up before.
  func change(of peer: KnownPeer) throws(StatementFault) -> TrustChange? {
    guard statement.name == peer.name else { throw .otherName(statement.name) }
    // Found by its key, and verified with the certificate that we hold: what it brings itself proves nothing.
    let known = zip(peer.authorities, [peer.peer.caCertificate, peer.peer.trust.nextCACertificate ?? []])
    guard let (signer, signerDER) = known.first(where: { $0.0.publicKey == self.signer.publicKey }) else {
      throw .unknownSigner
    }
    guard isSigned(by: signer) else { throw .wrongSignature }
    guard statement.authority.publicKey == signer.publicKey else { throw .otherAuthority }
    let next = try statement.next.map { next throws(StatementFault) in try successor(next, of: signer) }
    guard statement.sequence >= peer.peer.trust.sequence else { throw .older }
    guard statement.sequence > peer.peer.trust.sequence else { return nil }
    return TrustChange(
      trust: PeerTrust(
        nextCACertificate: next, revokedSerials: statement.revokedSerials, sequence: statement.sequence),
      caCertificate: signerDER)
  }

  /// A peer could name another relay's CA; that CA has said itself, signed by its own key, whose it is.
  /// - Returns: its DER.
  private func successor(_ next: Certificate, of signer: Certificate) throws(StatementFault) -> [UInt8] {
    do {
      let isFit =
        try next.isAuthority && next.isIssued(by: next) && next.publicKey != signer.publicKey
        && next.subject == CertificateAuthority.subject(for: statement.name)
      if isFit { return try next.der }
    } catch {
      throw .unfitSuccessor
    }
    throw .unfitSuccessor
  }
}
