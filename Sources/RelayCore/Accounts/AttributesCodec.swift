/// A device's description of itself, sent when it is created and whenever it changes (reference 1.4, 1.5, 1.14).
package struct AccountAttributes: Sendable, Equatable {
  package var signalingKey: Secret
  package var registrationID: Int32
  package var supportsSMS: Bool
  package var fetchesMessages: Bool
  package var voice: Bool
  package var name: String?
  /// The registration lock that a new installation sets, and must know to replace one that has a lock.
  package var pin: Secret?
  /// Whether contacts find the account; nil where the client does not say.
  package var isDiscoverable: Bool?

  /// Reads the whole body. A name of any length is read: `checkName` says what is wrong with a long one.
  package static func decode(_ json: RawSpan) throws(JSONError) -> AccountAttributes {
    var reader = JSONReader(json)
    var signalingKey: String?
    var registrationID: Int64 = 0
    var supportsSMS = false
    var fetchesMessages = false
    var voice = false
    var name: String?
    var pin: String?
    var isDiscoverable: Bool?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "signalingKey") {
        signalingKey = try reader.string()
      } else if reader.matches(key, "registrationId") {
        registrationID = try reader.integer() ?? 0
      } else if reader.matches(key, "supportsSms") {
        supportsSMS = try reader.boolean() ?? false
      } else if reader.matches(key, "fetchesMessages") {
        fetchesMessages = try reader.boolean() ?? false
      } else if reader.matches(key, "voice") {
        voice = try reader.boolean() ?? false
      } else if reader.matches(key, "name") {
        name = try reader.string()
      } else if reader.matches(key, "pin") {
        pin = try reader.string()
      } else if reader.matches(key, "discoverableByPhoneNumber") {
        isDiscoverable = try reader.boolean()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let signalingKey, (1...signalingKeyBytesMax).contains(signalingKey.utf8.count),
      let registration = Int32(exactly: registrationID), registration >= 0
    else { throw .wrongShape }
    if let pin, !PinCodec.isPin(pin) { throw .wrongShape }
    return AccountAttributes(
      signalingKey: Secret(signalingKey), registrationID: registration, supportsSMS: supportsSMS,
      fetchesMessages: fetchesMessages, voice: voice, name: name, pin: pin.map { Secret($0) },
      isDiscoverable: isDiscoverable)
  }

  /// - Throws: `.deviceNameTooLong` (reference 1.4).
  package func checkName() throws(Problem) {
    guard let name else { return }
    guard name.utf8.count <= Self.nameBytesMax, name.count <= Self.nameCharactersMax else {
      throw Problem(.deviceNameTooLong)
    }
  }

  /// The beginning of an `X-Signal-Agent`, in whole characters.
  package static func keptAgent(_ agent: String) -> String {
    var kept = agent.prefix(agentCharactersMax)
    while kept.utf8.count > agentBytesMax { kept.removeLast() }
    return String(kept)
  }

  /// 52 bytes are 72 characters; the historic column held 255 (reference 3.8).
  private static let signalingKeyBytesMax = 255
  /// Reference 1.4.
  package static let nameCharactersMax = 50
  /// A character may have any number of combining marks; two of four bytes each are plenty.
  private static let nameBytesMax = 400
  /// The part of `X-Signal-Agent` that is kept: it is free text without a bound of its own.
  private static let agentCharactersMax = 200
  private static let agentBytesMax = 800
}

// As plain text or bytes, and as little to be shown as those.
extension AccountAttributes: Sensitive { package static let kind: StaticString = "attributes" }

/// The registration lock on the wire: our own addition, which old clients do not notice (reference Part 6, 4).
package enum PinCodec {
  /// Reads the body of `PUT /v1/accounts/pin/`: `{"pin": "..."}`.
  package static func decode(_ json: RawSpan) throws(JSONError) -> Secret {
    let pin = try JSONReader.property("pin", of: json) { reader throws(JSONError) in try reader.string() }
    guard let pin, isPin(pin) else { throw .wrongShape }
    return Secret(pin)
  }

  /// Whether `text` has 4 to 100 characters, of any kind.
  package static func isPin(_ text: String) -> Bool {
    text.utf8.count <= bytesMax && (4...charactersMax).contains(text.count)
  }

  private static let charactersMax = 100
  /// A character can be a letter with marks without end.
  private static let bytesMax = 1024
}
