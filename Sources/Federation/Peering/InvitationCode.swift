import Crypto
package import RelayCore

/// An invitation as it travels from one operator to the other: `relay1.` and base64url of compact JSON.
///
/// It holds the secret, so it is itself one: whoever has it first can peer with the inviter.
package struct InvitationCode: Sensitive, Sendable, Equatable {
  package static let kind: StaticString = "invitation"
  static let prefix = "relay1."
  static let secretByteCount = 32
  /// Far above what our own fields can fill.
  private static let textBytesMax = 4096

  /// The inviter.
  package let name: RelayName
  package let endpoint: PeerEndpoint
  /// SHA-256 of the public key of the inviter's CA, 32 bytes.
  let fingerprint: [UInt8]
  let secret: [UInt8]
  package let expires: Timestamp
  /// The scopes that each side may ask of the other.
  package let scopes: Set<Peer.Scope>

  init(
    name: RelayName, endpoint: PeerEndpoint, fingerprint: [UInt8], secret: [UInt8], expires: Timestamp,
    scopes: Set<Peer.Scope>
  ) {
    self.name = name
    self.endpoint = endpoint
    self.fingerprint = fingerprint
    self.secret = secret
    self.expires = expires
    self.scopes = scopes
  }

  /// As the store lists it (`Invitation.id`).
  package var id: String { invitation.id }

  /// As its issuer remembers it.
  var invitation: Invitation {
    Invitation(secretHash: Array(SHA256.hash(data: secret)), expires: expires, scopes: scopes)
  }

  /// The one word that is handed over.
  package var text: String {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("name")
    writer.string(name.text)
    writer.key("url")
    writer.string(endpoint.text)
    writer.key("ca")
    writer.base64(fingerprint, padded: false)
    writer.key("secret")
    writer.base64(secret, padded: false)
    writer.key("expires")
    writer.integer(expires.millis)
    writer.key("scopes")
    writer.beginArray()
    for scope in scopes.sorted() { writer.string(scope.rawValue) }
    writer.endArray()
    writer.endObject()
    return Self.prefix + Base64.encodeURLSafe(writer.bytes)
  }

  /// - Throws: `.malformedInvitation`, also for one that was cut short in copying.
  package init(_ text: String) throws(FederationError) {
    let word = String(text.drop { $0.isWhitespace }.prefix { !$0.isWhitespace })
    guard word.hasPrefix(Self.prefix), word.utf8.count <= Self.textBytesMax,
      let bytes = Base64.decode(String(word.dropFirst(Self.prefix.count)))
    else { throw Self.malformed }
    do throws(JSONError) {
      guard let code = try Self.decode(bytes.span.bytes) else { throw JSONError.wrongShape }
      self = code
    } catch {
      throw Self.malformed
    }
  }

  private static let malformed = FederationError(
    .malformedInvitation, "This is no whole invitation: one is a single word that begins with \(prefix)",
    remedy: "Copy it again, or ask the other operator for a new one.")

  /// - Returns: nil when a property is missing or out of its range. Scopes that we do not know are left out.
  private static func decode(_ json: RawSpan) throws(JSONError) -> InvitationCode? {
    var reader = JSONReader(json)
    var name: String?
    var url: String?
    var fingerprint: [UInt8]?
    var secret: [UInt8]?
    var expires: Int64?
    var scopes: Set<Peer.Scope> = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "name") {
        name = try reader.string()
      } else if reader.matches(key, "url") {
        url = try reader.string()
      } else if reader.matches(key, "ca") {
        fingerprint = try reader.base64()
      } else if reader.matches(key, "secret") {
        secret = try reader.base64()
      } else if reader.matches(key, "expires") {
        expires = try reader.integer()
      } else if reader.matches(key, "scopes") {
        try reader.beginArray()
        while try reader.nextElement() {
          if let scope = try reader.string().flatMap({ Peer.Scope(rawValue: $0) }) { scopes.insert(scope) }
        }
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let name = name.flatMap({ RelayName($0) }), let endpoint = url.flatMap({ PeerEndpoint($0) }),
      let fingerprint, fingerprint.count == 32, let secret, secret.count == secretByteCount, let expires,
      expires >= 0
    else { return nil }
    return InvitationCode(
      name: name, endpoint: endpoint, fingerprint: fingerprint, secret: secret, expires: Timestamp(millis: expires),
      scopes: scopes)
  }
}
