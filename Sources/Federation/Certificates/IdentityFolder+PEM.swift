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
        .unreadableFile, "\(file) holds no certificate that can be read.",
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

  func move(_ file: String, to other: String) throws(FederationError) {
    try writing(other) { () throws(SecretFile.Failure) in try SecretFile.move(file, to: other) }
  }

  func remove(_ file: String) throws(FederationError) {
    try writing(file) { () throws(SecretFile.Failure) in try SecretFile.remove(file) }
  }

  /// Runs `body` while no other command changes the folder.
  func locked<Value>(_ body: () throws(FederationError) -> Value) throws(FederationError) -> Value {
    let result: Result<Value, FederationError>
    do throws(SecretFile.Failure) {
      result = try SecretFile.withLock(path, body)
    } catch {
      switch error {
      case .locked:
        throw FederationError(.busy, "\(path): \(error.text).", remedy: "Try again when it has ended.")
      case .system, .tooLarge:
        // The commands that make the folder come first.
        throw FederationError(
          .missingAuthority, "\(path) cannot be used: \(error.text).",
          remedy: "Run `relay ca init`, or check federation.directory and who owns it.")
      }
    }
    return try result.get()
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

  /// - Returns: nil when there is no such file.
  func readText(_ file: String) throws(FederationError) -> String? {
    do {
      return try SecretFile.read(file)
    } catch {
      throw FederationError(
        .unreadableFile, "\(file) cannot be read: \(error.text).", remedy: "Check federation.directory and who owns it."
      )
    }
  }

  private func read(_ file: String, missing: FederationError.Kind, remedy: String) throws(FederationError) -> String {
    guard let text = try readText(file) else {
      throw FederationError(missing, "There is no \(file).", remedy: remedy)
    }
    return text
  }
}
