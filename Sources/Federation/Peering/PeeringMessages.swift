// The bodies of `PUT /v1/federation/peering`, an addition of ours to reference 1.13.2 (docs/federation.md).

import RelayCore

/// `PUT`: redeems an invitation. The CA is not in it: it is what the TLS handshake proved.
struct RedemptionRequest: Sendable, Equatable {
  /// Base64url in the body.
  let secret: [UInt8]
  let name: RelayName
  /// Where the redeemer listens for its peers.
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
    let texts = try TextProperties.decode(json)
    guard let secret = texts.secret.flatMap({ Base64.decode($0) }), secret.count == InvitationCode.secretByteCount,
      let name = texts.name.flatMap({ RelayName($0) }), let endpoint = texts.url.flatMap({ PeerEndpoint($0) })
    else { throw .wrongShape }
    return RedemptionRequest(secret: secret, name: name, endpoint: endpoint)
  }
}

/// The answer to `PUT`: who the inviter is.
struct RedemptionAnswer: Sendable, Equatable {
  let name: RelayName
  let endpoint: PeerEndpoint

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("name")
    writer.string(name.text)
    writer.key("url")
    writer.string(endpoint.text)
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> RedemptionAnswer {
    let texts = try TextProperties.decode(json)
    guard let name = texts.name.flatMap({ RelayName($0) }), let endpoint = texts.url.flatMap({ PeerEndpoint($0) })
    else {
      throw .wrongShape
    }
    return RedemptionAnswer(name: name, endpoint: endpoint)
  }
}

/// All properties of both bodies are texts.
private struct TextProperties {
  var secret: String?
  var name: String?
  var url: String?

  static func decode(_ json: RawSpan) throws(JSONError) -> TextProperties {
    var reader = JSONReader(json)
    var texts = TextProperties()
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "secret") {
        texts.secret = try reader.string()
      } else if reader.matches(key, "name") {
        texts.name = try reader.string()
      } else if reader.matches(key, "url") {
        texts.url = try reader.string()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return texts
  }
}
