import FoundationEssentials
import NIOSSL
import RelayCore
import SwiftASN1
import Synchronization
import X509

/// The credentials that prove us to Apple, and the connections that use them.
final class APNsCredentials: Sendable {
  /// How old a token may become; Apple takes 20 to 60 minutes.
  static let tokenLife = Duration.seconds(30 * 60)
  /// Apple refuses to be shown new tokens more often.
  static let tokenAgeMin = Duration.seconds(20 * 60)

  let topic: String
  let client: PushClient
  /// nil with a certificate.
  let token: SharedToken?
  /// When the certificate ends.
  let expires: Timestamp?
  /// The texts that they were read from.
  private let source: [String]

  private init(topic: String, client: PushClient, token: SharedToken?, expires: Timestamp?, source: [String]) {
    self.topic = topic
    self.client = client
    self.token = token
    self.expires = expires
    self.source = source
  }

  /// Reads the files. - Returns: `former` when nothing in them has changed: its token is not to be replaced too soon.
  static func load(
    _ settings: APNsSettings, former: APNsCredentials?, tokens: APNsTokens, clock: WallClock
  ) throws(PushCredentialError) -> APNsCredentials {
    let file = settings.authentication.file
    var source = [try CredentialFile.read(file)]
    if let trust = settings.trust { source.append(try CredentialFile.read(trust)) }
    if let former, former.source == source { return former }
    var client = PushClient.Settings(speaksHTTP2: true)
    client.trust = try CredentialFile.authorities(settings.trust)
    switch settings.authentication {
    case .token(_, let keyID, let teamID, let topic):
      let key = try CredentialFile.signingKey(file)
      let token = tokens.token(of: .init(text: source[0], keyID: keyID, teamID: teamID)) {
        let now = clock.now()
        do {
          let text = try await TokenSigning.sign(
            APNsClaims(iss: teamID, iat: now.millis / 1000), by: key, keyID: keyID)
          return .success(.init(authorization: "bearer \(text)", made: now, renewal: now.adding(tokenLife)))
        } catch {
          return .failure(.init(outcome: .refused(PushReason(.credentials, "unsigned"))))
        }
      }
      return APNsCredentials(topic: topic, client: PushClient(client), token: token, expires: nil, source: source)
    case .certificate(_, let topic):
      let identity = try ClientCertificate(file)
      client.chain = identity.chain
      client.key = identity.key
      guard let topic = topic ?? identity.userID else {
        throw PushCredentialError(file, "the certificate's subject has no UID, and no topic is configured")
      }
      return APNsCredentials(
        topic: topic, client: PushClient(client), token: nil, expires: identity.expires, source: source)
    }
  }
}

/// A certificate to be shown to a server, its chain and its key.
private struct ClientCertificate {
  let chain: [NIOSSLCertificate]
  let key: NIOSSLPrivateKey
  let expires: Timestamp
  /// The subject's UID; nil for none.
  let userID: String?

  init(_ path: String) throws(PushCredentialError) {
    let text = try CredentialFile.read(path)
    let certificates = CredentialFile.blocks("CERTIFICATE", of: text)
    guard let first = certificates.first, let key = CredentialFile.blocks("PRIVATE KEY", of: text).first else {
      throw PushCredentialError(path, "not both a certificate and a private key in PEM")
    }
    let leaf: Certificate
    do {
      leaf = try Certificate(pemEncoded: first)
      chain = try certificates.map { try NIOSSLCertificate(bytes: Array($0.utf8), format: .pem) }
      self.key = try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)
    } catch {
      throw PushCredentialError(path, "the certificate or its key cannot be read")
    }
    expires = Timestamp(millis: Int64(leaf.notValidAfter.timeIntervalSince1970) * 1000)
    userID = Self.userID(leaf.subject)
  }

  /// RFC 4519, 2.39.
  private static let userIDType: ASN1ObjectIdentifier = [0, 9, 2342, 19_200_300, 100, 1, 1]

  private static func userID(_ subject: DistinguishedName) -> String? {
    for name in subject {
      for attribute in name where attribute.type == userIDType { return String(attribute.value) }
    }
    return nil
  }
}

extension CredentialFile {
  /// The certificates of a PEM file; none without a file.
  static func authorities(_ path: String?) throws(PushCredentialError) -> [NIOSSLCertificate] {
    guard let path else { return [] }
    let blocks = blocks("CERTIFICATE", of: try read(path))
    guard !blocks.isEmpty else { throw PushCredentialError(path, "no certificate in PEM") }
    do {
      return try blocks.map { try NIOSSLCertificate(bytes: Array($0.utf8), format: .pem) }
    } catch {
      throw PushCredentialError(path, "a certificate cannot be read")
    }
  }
}
