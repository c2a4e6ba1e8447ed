/// Prekeys of version 2: the identity key stands once, and each device has a signed prekey (reference 1.7).
extension PreKeyCodec {
  /// Reads the body of `PUT /v2/keys`. `lastResortKey` may be absent.
  package static func decodeUploadV2(_ json: RawSpan) throws(JSONError) -> PreKeyUpload {
    var reader = JSONReader(json)
    var identityKey: String?
    var preKeys: [PreKey]?
    var lastResort: PreKey?
    var signed: SignedPreKey?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "identityKey") {
        identityKey = try reader.string()
      } else if reader.matches(key, "preKeys") {
        if try reader.readNull() { continue }
        preKeys = try decodeKeys(&reader, .bare)
      } else if reader.matches(key, "lastResortKey") {
        lastResort = try decodeOptionalKey(&reader)
      } else if reader.matches(key, "signedPreKey") {
        signed = try decodeOptionalSigned(&reader)
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let identityKey, isKeyText(identityKey), let preKeys, let signed else { throw .wrongShape }
    return PreKeyUpload(identityKey: identityKey, oneTimeKeys: preKeys, lastResort: lastResort, signedPreKey: signed)
  }

  /// Reads the body of `PUT /v2/keys/signed`.
  package static func decodeSigned(_ json: RawSpan) throws(JSONError) -> SignedPreKey {
    var reader = JSONReader(json)
    guard let key = try decodeOptionalSigned(&reader) else { throw .wrongShape }
    try reader.finish()
    return key
  }

  /// Reads what a peer answers to `GET /v2/federation/key/{number}/{device}`.
  /// - Returns: devices in the order of the answer; may be empty.
  package static func decodeDrawnV2(_ json: RawSpan) throws(JSONError) -> [DrawnPreKey] {
    var reader = JSONReader(json)
    var identityKey: String?
    var devices: [DrawnDevice] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "identityKey") {
        identityKey = try reader.string()
      } else if reader.matches(key, "devices") {
        try reader.beginArray()
        while try reader.nextElement() {
          guard devices.count < WireLimits.messagesPerBundleMax else { throw .tooLarge }
          devices.append(try decodeDevice(&reader))
        }
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let identityKey, isKeyText(identityKey) else { throw .wrongShape }
    return devices.map { device in
      DrawnPreKey(
        device: device.id, registrationID: device.registrationID, identityKey: identityKey, preKey: device.preKey,
        signedPreKey: device.signed)
    }
  }

  /// `{"identityKey": ..., "devices": [...]}`.
  /// - Parameter drawn: of one account; not empty. A key that a device lacks is `null`.
  package static func encodeV2(_ drawn: [DrawnPreKey]) -> [UInt8] {
    var writer = JSONWriter(capacity: 128 + 512 * drawn.count)
    writer.beginObject()
    writer.key("identityKey")
    writer.string(drawn.first?.identityKey)
    writer.key("devices")
    writer.beginArray()
    for device in drawn {
      writer.beginObject()
      writer.key("deviceId")
      writer.integer(device.device.value)
      writer.key("registrationId")
      writer.integer(device.registrationID)
      writer.key("signedPreKey")
      if let key = device.signedPreKey { encode(key, into: &writer) } else { writer.null() }
      writer.key("preKey")
      if let key = device.preKey { encode(key, into: &writer) } else { writer.null() }
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// `{"keyId": ..., "publicKey": ..., "signature": ...}`.
  package static func encode(_ key: SignedPreKey) -> [UInt8] {
    var writer = JSONWriter()
    encode(key, into: &writer)
    return writer.bytes
  }

  private static func encode(_ key: SignedPreKey, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("keyId")
    writer.integer(key.keyID)
    writer.key("publicKey")
    writer.string(key.publicKey)
    writer.key("signature")
    writer.string(key.signature)
    writer.endObject()
  }

  private static func encode(_ key: PreKey, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("keyId")
    writer.integer(key.keyID)
    writer.key("publicKey")
    writer.string(key.publicKey)
    writer.endObject()
  }

  private struct DrawnDevice {
    let id: DeviceID
    let registrationID: Int32
    let preKey: PreKey?
    let signed: SignedPreKey?
  }

  @_lifetime(reader: copy reader)
  private static func decodeDevice(_ reader: inout JSONReader) throws(JSONError) -> DrawnDevice {
    var device: Int64 = 1
    var registrationID: Int64 = 0
    var preKey: PreKey?
    var signed: SignedPreKey?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "deviceId") {
        device = try reader.integer() ?? 1
      } else if reader.matches(key, "registrationId") {
        registrationID = try reader.integer() ?? 0
      } else if reader.matches(key, "preKey") {
        preKey = try decodeOptionalKey(&reader)
      } else if reader.matches(key, "signedPreKey") {
        signed = try decodeOptionalSigned(&reader)
      } else {
        try reader.skip()
      }
    }
    guard let id = DeviceID(device), let registration = Int32(exactly: registrationID), preKey != nil || signed != nil
    else { throw .wrongShape }
    return DrawnDevice(id: id, registrationID: registration, preKey: preKey, signed: signed)
  }

  @_lifetime(reader: copy reader)
  private static func decodeOptionalKey(_ reader: inout JSONReader) throws(JSONError) -> PreKey? {
    try reader.readNull() ? nil : try decodeKey(&reader, .bare).preKey
  }

  @_lifetime(reader: copy reader)
  private static func decodeOptionalSigned(_ reader: inout JSONReader) throws(JSONError) -> SignedPreKey? {
    if try reader.readNull() { return nil }
    var keyID: Int64 = 0
    var publicKey: String?
    var signature: String?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "keyId") {
        keyID = try reader.integer() ?? 0
      } else if reader.matches(key, "publicKey") {
        publicKey = try reader.string()
      } else if reader.matches(key, "signature") {
        signature = try reader.string()
      } else {
        try reader.skip()
      }
    }
    guard let publicKey, isKeyText(publicKey), let signature, isKeyText(signature), keyID >= 0 else {
      throw .wrongShape
    }
    return SignedPreKey(keyID: keyID, publicKey: publicKey, signature: signature)
  }
}
