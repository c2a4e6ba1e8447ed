import JWTKit
import RelayCore

/// A Google service account, from its JSON file.
struct FCMAccount: Sendable {
  let email: String
  let keyID: String?
  let projectID: String?
  let tokenURL: String?
  let key: JWTKit.Insecure.RSA.PrivateKey

  init(file: String, text: String) throws(PushCredentialError) {
    var members: [String: String]
    do throws(JSONError) {
      members = try Self.read(Array(text.utf8).span.bytes)
    } catch {
      throw PushCredentialError(file, "not the JSON of a service account")
    }
    guard let email = members["client_email"], let pem = members["private_key"] else {
      throw PushCredentialError(file, "no client_email or no private_key")
    }
    do {
      key = try JWTKit.Insecure.RSA.PrivateKey(pem: pem)
    } catch {
      // The parser's error could hold a part of the key.
      throw PushCredentialError(file, "private_key is no RSA key in PEM")
    }
    self.email = email
    keyID = members["private_key_id"]
    projectID = members["project_id"]
    tokenURL = members["token_uri"]
  }

  /// The members that matter; others are passed over.
  private static func read(_ body: RawSpan) throws(JSONError) -> [String: String] {
    var reader = JSONReader(body)
    var members: [String: String] = [:]
    try reader.beginObject()
    while let key = try reader.nextKey() {
      let name: String? =
        if reader.matches(key, "client_email") {
          "client_email"
        } else if reader.matches(key, "private_key") {
          "private_key"
        } else if reader.matches(key, "private_key_id") {
          "private_key_id"
        } else if reader.matches(key, "project_id") {
          "project_id"
        } else if reader.matches(key, "token_uri") {
          "token_uri"
        } else {
          nil
        }
      if let name {
        members[name] = try reader.string()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return members
  }
}
