// The bodies of `PUT /v1/federation/peering`, an addition of ours to reference 1.13.2 (docs/federation-wire.md,
// "Peering requests").

import RelayCore

/// `PUT`: redeems an invitation. The CA is not in it: it is what the TLS handshake proved.
struct RedemptionRequest: Sendable, Equatable {
  /// Base64url in the body.
  let secret: [UInt8]
  let name: RelayName
  /// The endpoint at which the redeemer listens for its peers.
  let endpoint: PeerEndpoint

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("secret")
    writer.string(Base64.encodeURLSafe(secret))
    writer.key("name")
    writer.string(name.text)
    writer.key("url")
    writer.string(endpoint.text)
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> RedemptionRequest {
    let properties = try PeeringProperties.decode(json)
    guard let secret = properties.secret.flatMap({ Base64.decode($0) }), secret.count == InvitationCode.secretByteCount,
      let name = properties.name.flatMap({ RelayName($0) }), let endpoint = properties.url.flatMap({ PeerEndpoint($0) })
    else { throw .wrongShape }
    return RedemptionRequest(secret: secret, name: name, endpoint: endpoint)
  }
}

/// The answer to `PUT`: who the inviter is.
struct RedemptionAnswer: Sendable, Equatable {
  let name: RelayName
  let endpoint: PeerEndpoint
  /// The scopes that the redeemer may ask of the inviter. nil from older relays, which do not tell.
  let scopes: Set<Peer.Scope>?

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("name")
    writer.string(name.text)
    writer.key("url")
    writer.string(endpoint.text)
    if let scopes {
      writer.key("scopes")
      writer.strings(scopes.sorted().map(\.rawValue))
    }
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> RedemptionAnswer {
    let properties = try PeeringProperties.decode(json)
    guard let name = properties.name.flatMap({ RelayName($0) }),
      let endpoint = properties.url.flatMap({ PeerEndpoint($0) })
    else {
      throw .wrongShape
    }
    return RedemptionAnswer(
      name: name, endpoint: endpoint, scopes: properties.scopes.map { Set($0.compactMap { Peer.Scope(rawValue: $0) }) })
  }
}

/// The properties of both bodies.
private struct PeeringProperties {
  var secret: String?
  var name: String?
  var url: String?
  var scopes: [String]?

  /// Far above what there are.
  private static let scopesMax = 100

  static func decode(_ json: RawSpan) throws(JSONError) -> PeeringProperties {
    var reader = JSONReader(json)
    var properties = PeeringProperties()
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "secret") {
        properties.secret = try reader.string()
      } else if reader.matches(key, "name") {
        properties.name = try reader.string()
      } else if reader.matches(key, "url") {
        properties.url = try reader.string()
      } else if reader.matches(key, "scopes") {
        properties.scopes = try reader.strings(max: scopesMax)
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return properties
  }
}
