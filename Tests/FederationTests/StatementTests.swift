import Crypto
import RelayCore
import SwiftASN1
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// A CA's statements about itself, and the rules for believing them.
@Suite(.tags(.stores)) struct StatementTests {
  private let now = TestRelay.systemClock.now()

  @Test func `a statement survives its journey`() throws {
    let (ca, next) = (try authority("beta"), try authority("beta"))
    let signed = try statement(of: "beta", by: ca, sequence: 7, next: next, revoked: [[9], [1, 2]])
    let read = try decode(signed.json())
    #expect(read.statement == signed.statement)
    #expect(read.statement.revokedSerials == [[1, 2], [9]])
    #expect(read.isSigned(by: ca.certificate))
    #expect(!read.isSigned(by: next.certificate))
  }

  @Test func `the smallest and the largest statement are read`() throws {
    let ca = try authority("beta")
    let small = try statement(of: "beta", by: ca, sequence: 1)
    #expect(try decode(small.json()).statement.next == nil)
    let serials = (0..<AuthorityStatement.revokedMax).map { index in
      [UInt8](repeating: 0xFF, count: 18) + [UInt8(index >> 8), UInt8(index & 255)]
    }
    let large = try statement(of: "beta", by: ca, sequence: .max, next: try authority("beta"), revoked: serials)
    let json = try large.json()
    #expect(json.count <= SignedStatement.bytesMax)
    #expect(try decode(json).statement.revokedSerials.count == serials.count)
    let tooMany = try statement(of: "beta", by: ca, sequence: 1, revoked: serials + [[1]])
    #expect(throws: JSONError.tooLarge) { try decode(tooMany.json()) }
  }

  @Test func `random and damaged bytes are refused or prove nothing`() throws {
    let ca = try authority("beta")
    let signed = try statement(of: "beta", by: ca, sequence: 7, revoked: [[1]])
    let json = try signed.json()
    let peer = try known("beta", ca)
    var random = SystemRandomNumberGenerator()
    for _ in 0..<400 {
      var damaged = json
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        damaged[Int.random(in: damaged.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      // Not what the signature covers, or not readable, or as it was: never anything else.
      guard let read = try? decode(damaged), let change = try? read.change(of: peer) else {
        continue
      }
      #expect(change.trust.sequence == 7 && change.trust.revokedSerials == [[1]])
    }
    for count in [0, 1, 10, 1000] {
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
      #expect(throws: JSONError.self) { try decode(bytes) }
      #expect(throws: JSONError.self) { try decodeIssued(bytes) }
    }
  }

  // MARK: Rules

  @Test func `the known authority names its successor and revokes`() throws {
    let (ca, next) = (try authority("beta"), try authority("beta"))
    let peer = try known("beta", ca)
    let change = try statement(of: "beta", by: ca, sequence: 5, next: next, revoked: [[1]]).change(of: peer)
    #expect(change?.caCertificate == peer.peer.caCertificate)
    #expect(
      try change?.trust
        == PeerTrust(nextCACertificate: next.certificate.der, revokedSerials: [[1]], sequence: 5))
  }

  @Test func `the successor takes over by its own word alone`() throws {
    let (ca, next, other) = (try authority("beta"), try authority("beta"), try authority("beta"))
    let peer = try known("beta", ca, next: next, sequence: 5)
    let change = try statement(of: "beta", by: next, sequence: 6).change(of: peer)
    #expect(try change == TrustChange(trust: PeerTrust(sequence: 6), caCertificate: next.certificate.der))
    // It may name the one after it at once.
    let twice = try statement(of: "beta", by: next, sequence: 6, next: other).change(of: peer)
    #expect(try twice?.trust.nextCACertificate == other.certificate.der)
    // The present one can still take it back.
    let back = try statement(of: "beta", by: ca, sequence: 6).change(of: peer)
    #expect(back == TrustChange(trust: PeerTrust(sequence: 6), caCertificate: peer.peer.caCertificate))
  }

  @Test func `no other key changes anything`() throws {
    let (ca, stranger, gamma) = (try authority("beta"), try authority("beta"), try authority("gamma"))
    let peer = try known("beta", ca, sequence: 5)
    func fault(_ signed: SignedStatement) -> StatementFault? {
      do throws(StatementFault) {
        _ = try signed.change(of: peer)
        return nil
      } catch {
        return error
      }
    }
    #expect(try fault(statement(of: "gamma", by: ca, sequence: 6)) == .otherName(name("gamma")))
    #expect(try fault(statement(of: "beta", by: stranger, sequence: 6)) == .unknownSigner)
    // A stranger's signature under the true CA's certificate.
    let forged = CertificateAuthority(certificate: ca.certificate, key: stranger.key)
    #expect(try fault(statement(of: "beta", by: forged, sequence: 6)) == .wrongSignature)
    // Another CA as the present one; a stranger cannot be put in its place in one step.
    #expect(try fault(statement(of: "beta", by: ca, sequence: 6, as: stranger)) == .otherAuthority)
    #expect(try fault(statement(of: "beta", by: ca, sequence: 6, next: gamma)) == .unfitSuccessor)
    #expect(try fault(statement(of: "beta", by: ca, sequence: 6, next: ca)) == .unfitSuccessor)
    #expect(try fault(statement(of: "beta", by: ca, sequence: 4)) == .older)
    #expect(try statement(of: "beta", by: ca, sequence: 5, revoked: [[1]]).change(of: peer) == nil)
  }

  @Test func `a leaf cannot speak for its authority`() throws {
    let ca = try authority("beta")
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let leaf = try ca.issue(for: name("beta"), at: endpoint("https://beta.example"), key: key.publicKey, now: now)
    let thief = CertificateAuthority(certificate: leaf, key: key)
    #expect(throws: StatementFault.unknownSigner) {
      try statement(of: "beta", by: thief, sequence: 9).change(of: known("beta", ca))
    }
    // Nor can it be named as the successor.
    #expect(throws: StatementFault.unfitSuccessor) {
      try statement(of: "beta", by: ca, sequence: 9, next: thief).change(of: known("beta", ca))
    }
  }

  @Test func `naming another's authority as one's successor takes nothing from it`() throws {
    let (beta, gamma) = (try authority("beta"), try authority("gamma"))
    // As a store would hold it that was filled by other rules.
    let thief = try known("beta", beta, next: gamma).peer
    let table = PeerTable([thief, try known("gamma", gamma).peer])
    #expect(table.peer(fingerprint: gamma.certificate.keyFingerprint)?.name.text == "gamma")
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let leaf = try gamma.issue(for: name("gamma"), at: endpoint("https://g.example"), key: key.publicKey, now: now)
    #expect(table.issuer(of: leaf)?.name.text == "gamma")
  }

  // MARK: When peers are asked

  @Test func `each peer is asked once at a time, and not too many together`() throws {
    var schedule = TrustSchedule(askedMax: 2)
    let names = try ["a", "b", "c"].map { try name($0) }
    let start = ContinuousClock.now
    #expect(schedule.due(among: names, at: start) == Set(names[0...1]))
    #expect(schedule.due(among: names, at: start).isEmpty)
    schedule.ended(names[0], next: start + .seconds(30))
    #expect(schedule.due(among: names, at: start) == [names[2]])
    schedule.ended(names[1], next: start + .seconds(40))
    #expect(schedule.due(among: names, at: start + .seconds(29)).isEmpty)
    #expect(schedule.due(among: names, at: start + .seconds(30)) == [names[0]])
    schedule.ended(names[0], next: start + .seconds(90))
    schedule.ended(names[2], next: start + .seconds(90))
    // One that was gone meanwhile is new.
    #expect(schedule.due(among: [names[1]], at: start + .seconds(35)).isEmpty)
    #expect(schedule.due(among: names, at: start + .seconds(35)) == [names[0], names[2]])
  }

  // MARK: Support

  private func decode(_ json: [UInt8]) throws -> SignedStatement { try SignedStatement.decode(json.span.bytes) }
  private func decodeIssued(_ json: [UInt8]) throws -> IssuedLeaves { try IssuedLeaves.decode(json.span.bytes) }

  private func authority(_ text: String) throws -> CertificateAuthority {
    try CertificateAuthority(for: name(text), now: now)
  }

  /// - Parameter present: what it calls the present CA, instead of its signer.
  private func statement(
    of text: String, by signer: CertificateAuthority, sequence: Int64, next: CertificateAuthority? = nil,
    revoked: [[UInt8]] = [], as present: CertificateAuthority? = nil
  ) throws -> SignedStatement {
    try SignedStatement(
      AuthorityStatement(
        name: name(text), sequence: sequence, authority: (present ?? signer).certificate, next: next?.certificate,
        revokedSerials: revoked.sorted { $0.lexicographicallyPrecedes($1) }),
      by: signer)
  }

  private func known(
    _ text: String, _ authority: CertificateAuthority, next: CertificateAuthority? = nil, sequence: Int64 = 0
  ) throws -> KnownPeer {
    let peer = Peer(
      name: try name(text), url: "https://\(text).example:443", caCertificate: try authority.certificate.der,
      state: .active, scopes: [], added: now,
      trust: PeerTrust(nextCACertificate: try next?.certificate.der, sequence: sequence))
    return try #require(KnownPeer(peer))
  }
}
