// Keys and certificates of an app, as its owner would have them, in a folder of their own.

package import Crypto
package import CryptoExtras
package import Foundation
import RelayCore
import SwiftASN1
import X509

package final class PushFiles: Sendable {
  package static let keyID = "KEYID00001"
  package static let teamID = "TEAMID0001"
  package static let topic = "com.example.topic"
  package static let project = "example-project"
  package static let account = "push@example-project.iam.gserviceaccount.com"
  package static let accountKeyID = "account-key-1"

  package let folder: String
  /// Signs all servers' certificates.
  package let authority: TestAuthority
  /// Signs the apps' certificates.
  package let apple: TestAuthority

  package var trust: String { path("authority.pem") }
  package var apnsKey: String { path("apns.p8") }
  package var vapidKey: String { path("vapid.pem") }
  package var serviceAccount: String { path("service-account.json") }
  package var certificate: String { path("certificate.pem") }

  package init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "relay-push-\(UUID().uuidString)").path
    authority = try TestAuthority("push servers")
    apple = try TestAuthority("apple")
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try write(try authority.pem, to: "authority.pem")
  }

  deinit {
    // A leftover in the temporary folder hurts nobody.
    try? FileManager.default.removeItem(atPath: folder)
  }

  package func path(_ name: String) -> String { "\(folder)/\(name)" }

  /// Replaces a file as a whole.
  package func write(_ text: String, to name: String) throws {
    try text.write(toFile: path(name), atomically: true, encoding: .utf8)
  }

  /// A certificate of a server called `localhost` and `push.test`, which no name server knows.
  func serverLeaf() throws -> TestLeaf {
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: Date(timeIntervalSinceNow: -3600),
      notValidAfter: Date(timeIntervalSinceNow: 86_400), issuer: authority.certificate.subject,
      subject: DistinguishedName { CommonName("push server") },
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames([
          .dnsName("localhost"), .dnsName("push.test"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
        ])
      },
      issuerPrivateKey: authority.key)
    return TestLeaf(certificate: certificate, key: key, authority: authority.certificate)
  }

  /// Writes a new `.p8` file. - Returns: what verifies its tokens.
  @discardableResult
  package func makeAPNsKey() throws -> P256.Signing.PublicKey {
    let key = P256.Signing.PrivateKey()
    try write(key.pemRepresentation, to: "apns.p8")
    return key.publicKey
  }

  /// Writes a new VAPID key. - Returns: the public key.
  @discardableResult
  package func makeVAPIDKey() throws -> P256.Signing.PublicKey {
    let key = P256.Signing.PrivateKey()
    try write(key.pemRepresentation, to: "vapid.pem")
    return key.publicKey
  }

  /// Writes a service account with a key that all tests share: such keys take long to make.
  /// - Returns: what verifies its assertions.
  @discardableResult
  package func makeServiceAccount(tokenURL: String = "https://localhost/token") throws -> _RSA.Signing.PublicKey {
    let account = [
      "type": "service_account", "project_id": Self.project, "private_key_id": Self.accountKeyID,
      "private_key": Self.accountKey.pkcs8PEMRepresentation, "client_email": Self.account, "token_uri": tokenURL,
    ]
    let text = try JSONSerialization.data(withJSONObject: account)
    try write(String(decoding: text, as: UTF8.self), to: "service-account.json")
    return Self.accountKey.publicKey
  }

  /// Writes an app's certificate with its key. - Parameter userID: the subject's UID; nil for none.
  package func makeCertificate(
    userID: String? = "com.example.uid.topic", until: Date = Date(timeIntervalSinceNow: 86_400)
  ) throws {
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    var names = [RelativeDistinguishedName(.init(type: .NameAttributes.commonName, utf8String: "Apple Push"))]
    if let userID {
      let attribute = RelativeDistinguishedName.Attribute(
        type: [0, 9, 2342, 19_200_300, 100, 1, 1], utf8String: userID)
      names.append(RelativeDistinguishedName(attribute))
    }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: Date(timeIntervalSinceNow: -3600),
      notValidAfter: until, issuer: apple.certificate.subject, subject: DistinguishedName(names),
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.clientAuth])
      },
      issuerPrivateKey: apple.key)
    let pem = try [certificate.serializeAsPEM().pemString, key.serializeAsPEM().pemString].joined(separator: "\n")
    try write(pem, to: "certificate.pem")
  }

  private static let accountKey: _RSA.Signing.PrivateKey = {
    do {
      return try _RSA.Signing.PrivateKey(keySize: .bits2048)
    } catch {
      preconditionFailure("no RSA key can be made: \(error)")
    }
  }()
}
