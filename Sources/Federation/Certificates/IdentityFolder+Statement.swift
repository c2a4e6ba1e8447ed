package import RelayCore
import X509

// The leaves that our CA issued and withdrew, and its statement. Changes need `ca.key`.
extension IdentityFolder {
  /// The leaves that were issued and have not ended, in the order of their making.
  package func issuedLeaves(now: Timestamp) throws(FederationError) -> [IssuedLeaf] {
    try loadIssued(now: now).leaves
  }

  /// The serial number of the leaf that is in place, in hexadecimal.
  package func presentSerial() throws(FederationError) -> String {
    guard let leaf = try presentLeaf() else {
      throw FederationError(.missingLeaf, "There is no \(leafFile).", remedy: "Run `relay ca issue`.")
    }
    return leaf.serial.hex
  }

  /// Withdraws a leaf: peers that have read the statement refuse it. Repeating it is safe.
  /// - Parameter serial: in hexadecimal.
  /// - Throws: `.unknownSerial`, `.tooManyRevoked`; nothing was done then.
  package func revokeLeaf(_ serial: String, of name: RelayName, now: Timestamp) throws(FederationError) {
    try locked { () throws(FederationError) in
      let authority = try issuingAuthority()
      var issued = try loadIssued(now: now)
      if let leaf = try presentLeaf() { issued.note(serial: leaf.serial, made: now, expires: leaf.validUntil) }
      let bytes = [UInt8](hex: serial).map { Array($0.drop { $0 == 0 }) }
      guard let bytes, issued.revoke(bytes) else {
        throw FederationError(
          .unknownSerial, "No leaf that is still valid has the serial number \(serial.prefix(40)).",
          remedy: "`relay ca list` shows them.")
      }
      guard issued.revokedSerials.count <= AuthorityStatement.revokedMax else {
        throw FederationError(
          .tooManyRevoked, "\(AuthorityStatement.revokedMax) leaves are revoked already.",
          remedy: "Roll the CA over: `relay ca rollover begin`.")
      }
      // Noted before it is said: whatever is said later includes it.
      try save(issued)
      let next = try nextAuthority()
      try state(
        by: authority, next: next?.publicKey == authority.certificate.publicKey ? nil : next, for: name, now: now)
    }
  }

  /// The statement that peers are shown.
  /// - Returns: nil when there is none: nothing has been said.
  func loadStatement() throws(FederationError) -> SignedStatement? {
    guard let text = try readText(statementFile) else { return nil }
    do throws(JSONError) {
      return try SignedStatement.decode(Array(text.utf8).span.bytes)
    } catch {
      throw FederationError(
        .unreadableFile, "\(statementFile) holds no statement that can be read.",
        remedy: "Remove it; the next `relay ca revoke` or `relay ca rollover` command writes it anew.")
    }
  }

  /// Signs what is true now. The sequence rises, whatever the clock says.
  func state(
    by authority: CertificateAuthority, next: Certificate?, for name: RelayName, now: Timestamp
  ) throws(FederationError) {
    let former = try loadStatement()?.statement.sequence ?? 0
    var issued = try loadIssued(now: now)
    let sequence = max(now.millis, former + 1)
    issued.stated = sequence
    try save(issued)
    let signed = try making {
      try SignedStatement(
        AuthorityStatement(
          name: name, sequence: sequence, authority: authority.certificate, next: next,
          revokedSerials: issued.revokedSerials),
        by: authority)
    }
    let json = try making { try signed.json() }
    try write(String(decoding: json, as: UTF8.self), to: statementFile, mode: 0o644)
  }

  func save(_ issued: IssuedLeaves) throws(FederationError) {
    try write(String(decoding: issued.json, as: UTF8.self), to: issuedFile, mode: 0o644)
  }

  /// The leaves that have not ended. If the file is lost, or is an older one, the leaves that the statement withdraws
  /// stay withdrawn.
  func loadIssued(now: Timestamp) throws(FederationError) -> IssuedLeaves {
    var issued = IssuedLeaves()
    if let text = try readText(issuedFile) {
      do throws(JSONError) {
        issued = try IssuedLeaves.decode(Array(text.utf8).span.bytes)
      } catch {
        throw FederationError(
          .unreadableFile, "\(issuedFile) cannot be read.",
          remedy: "Put it back from a backup, or remove it: what is revoked stays so.")
      }
    }
    if let statement = try loadStatement()?.statement, statement.sequence > issued.stated {
      for serial in statement.revokedSerials {
        // When it ends is not known; no leaf lasts longer.
        issued.note(serial: serial, made: now, expires: now.adding(CertificateAuthority.leafLifetime))
        _ = issued.revoke(serial)
      }
      issued.stated = statement.sequence
    }
    issued.prune(now: now)
    return issued
  }
}
