import Crypto

extension CredentialFile {
  /// The P-256 key of a PEM file, PKCS #8 (`.p8`) or SEC 1.
  static func signingKey(_ path: String) throws(PushCredentialError) -> P256.Signing.PrivateKey {
    guard let block = blocks("PRIVATE KEY", of: try read(path)).first else {
      throw PushCredentialError(path, "no private key in PEM")
    }
    do {
      return try P256.Signing.PrivateKey(pemRepresentation: block)
    } catch {
      // The parser's error could hold a part of the key.
      throw PushCredentialError(path, "no key of the curve P-256")
    }
  }
}
