// The bodies by which a device says how it is woken (reference 1.5).

package struct GCMRegistration: Sendable, Equatable {
  package let id: Secret
  /// Whether the device also holds a socket (`webSocketChannel`).
  package let fetchesMessages: Bool

  package static func decode(_ json: RawSpan) throws(JSONError) -> GCMRegistration {
    var reader = JSONReader(json)
    var id: String?
    var fetchesMessages = false
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "gcmRegistrationId") {
        id = try reader.string()
      } else if reader.matches(key, "webSocketChannel") {
        fetchesMessages = try reader.boolean() ?? false
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return GCMRegistration(id: try PushID.required(id), fetchesMessages: fetchesMessages)
  }
}

package struct APNRegistration: Sendable, Equatable {
  package let id: Secret
  package let voip: Secret?

  package static func decode(_ json: RawSpan) throws(JSONError) -> APNRegistration {
    var reader = JSONReader(json)
    var id: String?
    var voip: String?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "apnRegistrationId") {
        id = try reader.string()
      } else if reader.matches(key, "voipRegistrationId") {
        voip = try reader.string()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    // An empty one counts as absent.
    let voipID = try voip.flatMap { $0.isEmpty ? nil : $0 }.map { text throws(JSONError) in try PushID.required(text) }
    return APNRegistration(id: try PushID.required(id), voip: voipID)
  }
}

/// An id of a push service: opaque, but neither empty nor endless.
private enum PushID {
  static func required(_ text: String?) throws(JSONError) -> Secret {
    guard let text, (1...bytesMax).contains(text.utf8.count) else { throw .wrongShape }
    return Secret(text)
  }

  /// Far above what any service gives out.
  private static let bytesMax = 4096
}
