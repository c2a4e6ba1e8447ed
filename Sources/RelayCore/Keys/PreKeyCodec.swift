/// Prekeys on the wire: those of version 1 here (reference 1.6), those of version 2 in PreKeyCodecV2.swift.
package enum PreKeyCodec {
  /// Reads the body of `PUT /v1/keys`.
  package static func decodeUpload(_ json: RawSpan) throws(JSONError) -> PreKeyUpload {
    var reader = JSONReader(json)
    var lastResort: Parsed?
    var keys: [PreKey]?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "lastResortKey") {
        if try reader.readNull() { continue }
        lastResort = try decodeKey(&reader, .upload)
      } else if reader.matches(key, "keys") {
        if try reader.readNull() { continue }
        keys = try decodeKeys(&reader, .upload)
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let lastResort, let keys, let identityKey = lastResort.identityKey else { throw .wrongShape }
    return PreKeyUpload(identityKey: identityKey, oneTimeKeys: keys, lastResort: lastResort.preKey)
  }

  /// Reads what a peer answers to `GET .../key/{number}/{device}`.
  package static func decodeDrawn(_ json: RawSpan) throws(JSONError) -> [DrawnPreKey] {
    var reader = JSONReader(json)
    var drawn: [DrawnPreKey] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "keys") else {
        try reader.skip()
        continue
      }
      try reader.beginArray()
      while try reader.nextElement() {
        guard drawn.count < WireLimits.messagesPerBundleMax else { throw .tooLarge }
        let key = try decodeKey(&reader, .drawn)
        guard let identityKey = key.identityKey else { throw .wrongShape }
        drawn.append(
          DrawnPreKey(
            device: key.device, registrationID: key.registrationID, identityKey: identityKey, preKey: key.preKey))
      }
    }
    try reader.finish()
    return drawn
  }

  /// `{"keys": [...]}`.
  package static func encode(_ drawn: [DrawnPreKey]) -> [UInt8] {
    var writer = JSONWriter(capacity: 64 + 256 * drawn.count)
    writer.beginObject()
    writer.key("keys")
    writer.beginArray()
    for key in drawn { encode(key, withDevice: true, into: &writer) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// One bare object. The key must have a prekey: a signed one has no place in version 1.
  /// - Parameter withDevice: false for peers of the first generation, who refuse properties that they do not know.
  package static func encode(_ drawn: DrawnPreKey, withDevice: Bool) -> [UInt8] {
    var writer = JSONWriter()
    encode(drawn, withDevice: withDevice, into: &writer)
    return writer.bytes
  }

  /// `{"count": n}`.
  package static func encode(count: Int) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("count")
    writer.integer(count)
    writer.endObject()
    return writer.bytes
  }

  private static func encode(_ drawn: DrawnPreKey, withDevice: Bool, into writer: inout JSONWriter) {
    guard let preKey = drawn.preKey else { return }
    writer.beginObject()
    if withDevice {
      writer.key("deviceId")
      writer.integer(drawn.device.value)
    }
    writer.key("keyId")
    writer.integer(preKey.keyID)
    writer.key("publicKey")
    writer.string(preKey.publicKey)
    writer.key("identityKey")
    writer.string(drawn.identityKey)
    if withDevice {
      writer.key("registrationId")
      writer.integer(drawn.registrationID)
    }
    writer.endObject()
  }

  @_lifetime(reader: copy reader)
  static func decodeKeys(_ reader: inout JSONReader, _ form: Form) throws(JSONError) -> [PreKey] {
    var keys: [PreKey] = []
    try reader.beginArray()
    while try reader.nextElement() {
      guard keys.count < WireLimits.preKeysPerUploadMax else { throw .tooLarge }
      keys.append(try decodeKey(&reader, form).preKey)
    }
    return keys
  }

  /// The properties of a prekey object. All others are unknown, and skipped whatever they hold: clients of 2014 upload
  /// their keys with a `deviceId` of 0.
  enum Form {
    /// Version 2: the key alone.
    case bare
    /// An upload of version 1: with the identity key.
    case upload
    /// An answer of version 1: with the identity key and the device.
    case drawn
  }

  /// A prekey object of either version, with what version 1 adds to it.
  struct Parsed {
    var preKey: PreKey
    var identityKey: String?
    var device: DeviceID
    var registrationID: Int32
  }

  @_lifetime(reader: copy reader)
  static func decodeKey(_ reader: inout JSONReader, _ form: Form) throws(JSONError) -> Parsed {
    var keyID: Int64 = 0
    var publicKey: String?
    var identityKey: String?
    var device: Int64 = 1
    var registrationID: Int64 = 0
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "keyId") {
        keyID = try reader.integer() ?? 0
      } else if reader.matches(key, "publicKey") {
        publicKey = try reader.string()
      } else if form != .bare, reader.matches(key, "identityKey") {
        identityKey = try reader.string()
      } else if form == .drawn, reader.matches(key, "deviceId") {
        device = try reader.integer() ?? 1
      } else if form == .drawn, reader.matches(key, "registrationId") {
        registrationID = try reader.integer() ?? 0
      } else {
        try reader.skip()
      }
    }
    guard let publicKey, isKeyText(publicKey), keyID >= 0, let id = DeviceID(device),
      let registration = Int32(exactly: registrationID)
    else { throw .wrongShape }
    if let text = identityKey, !isKeyText(text) { throw .wrongShape }
    return Parsed(
      preKey: PreKey(keyID: keyID, publicKey: publicKey), identityKey: identityKey, device: id,
      registrationID: registration)
  }

  /// Keys are opaque texts, but not empty and not endless.
  package static func isKeyText(_ text: String) -> Bool {
    (1...WireLimits.keyTextBytesMax).contains(text.utf8.count)
  }
}
