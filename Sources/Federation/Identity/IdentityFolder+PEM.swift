import SwiftASN1
import X509

// The folder's files as text, with every failure explained.
extension IdentityFolder {
  /// - Returns: at least one certificate.
  func loadCertificates(
    _ file: String, missing: FederationError.Kind, remedy: String
  ) throws(FederationError) -> [Certificate] {
    let text = try read(file, missing: missing, remedy: remedy)
    do {
      let documents = try PEMDocument.parseMultiple(pemString: text)
      let certificates = try documents.map { try Certificate(pemDocument: $0) }
      guard !certificates.isEmpty else { throw EmptyFile() }
      return certificates
    } catch {
      throw FederationError(
        .unreadableFile, "\(file) holds no certificate that can be read: \(error).",
        remedy: "Put it back from a backup, or make it anew.")
    }
  }

  func loadKey(
    _ file: String, missing: FederationError.Kind, remedy: String
  ) throws(FederationError) -> Certificate.PrivateKey {
    let text = try read(file, missing: missing, remedy: remedy)
    do {
      return try Certificate.PrivateKey(pemEncoded: text)
    } catch {
      // The parser's error might quote the key.
      throw FederationError(
        .unreadableFile, "\(file) holds no private key that can be read.",
        remedy: "Put it back from a backup, or make it anew.")
    }
  }

  func write(_ text: String, to file: String, mode: UInt32) throws(FederationError) {
    try writing(file) { () throws(SecretFile.Failure) in try SecretFile.write(text, to: file, mode: mode) }
  }

  func writing(_ file: String, _ body: () throws(SecretFile.Failure) -> Void) throws(FederationError) {
    do {
      try body()
    } catch {
      throw FederationError(
        .unwritableFile, "\(file) cannot be written: \(error.text).",
        remedy: "Check federation.directory and who owns it.")
    }
  }

  /// Retypes what cannot fail but for a defect of ours or of the libraries.
  func making<T>(_ body: () throws -> T) throws(FederationError) -> T {
    do {
      return try body()
    } catch {
      throw FederationError(.wrongCertificate, "A certificate could not be made: \(error).", remedy: "Report this.")
    }
  }

  func pem(_ certificates: [Certificate]) throws(FederationError) -> String {
    try making { try certificates.map { try $0.serializeAsPEM().pemString + "\n" }.joined() }
  }

  func pem(_ key: Certificate.PrivateKey) throws(FederationError) -> String {
    try making { try key.serializeAsPEM().pemString + "\n" }
  }

  private struct EmptyFile: Error, CustomStringConvertible { let description = "it is empty" }

  private func read(_ file: String, missing: FederationError.Kind, remedy: String) throws(FederationError) -> String {
    let text: String?
    do {
      text = try SecretFile.read(file)
    } catch {
      throw FederationError(
        .unreadableFile, "\(file) cannot be read: \(error.text).", remedy: "Check federation.directory and who owns it."
      )
    }
    guard let text else { throw FederationError(missing, "There is no \(file).", remedy: remedy) }
    return text
  }
}
