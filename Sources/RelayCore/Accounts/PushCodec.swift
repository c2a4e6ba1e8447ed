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

/// A browser's push subscription (RFC 8030, 8291), for its device here.
package struct WebPushRegistration: Sensitive, Sendable, Equatable {
  package static let kind: StaticString = "WebPush registration"
  /// A URL.
  package let endpoint: String
  /// Base64url, as `PushSubscription.getKey` has it: the public key, and the secret.
  package let p256dh: String
  package let auth: String

  package init(endpoint: String, p256dh: String, auth: String) {
    self.endpoint = endpoint
    self.p256dh = p256dh
    self.auth = auth
  }

  /// As the stores keep it: one text, as the ids of other services are.
  package var id: Secret { Secret("\(endpoint) \(p256dh) \(auth)") }

  /// - Returns: nil for what `id` is not of.
  package init?(id: Secret) {
    let parts = id.value.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3 else { return nil }
    self.init(endpoint: parts[0], p256dh: parts[1], auth: parts[2])
  }

  /// Either flat, or as `PushSubscription.toJSON` writes it, with both keys in an object `keys`. Whether it can be used
  /// is not looked at.
  package static func decode(_ json: RawSpan) throws(JSONError) -> WebPushRegistration {
    var reader = JSONReader(json)
    var endpoint: String?
    var keys: (p256dh: String?, auth: String?) = (nil, nil)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "endpoint") {
        endpoint = try reader.string()
      } else if reader.matches(key, "p256dh") {
        keys.p256dh = try reader.string()
      } else if reader.matches(key, "auth") {
        keys.auth = try reader.string()
      } else if reader.matches(key, "keys") {
        try reader.beginObject()
        while let key = try reader.nextKey() {
          if reader.matches(key, "p256dh") {
            keys.p256dh = try reader.string()
          } else if reader.matches(key, "auth") {
            keys.auth = try reader.string()
          } else {
            try reader.skip()
          }
        }
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    let (address, point, secret) = (
      try PushID.required(endpoint), try PushID.required(keys.p256dh), try PushID.required(keys.auth)
    )
    let registration = WebPushRegistration(endpoint: address.value, p256dh: point.value, auth: secret.value)
    // The separator between the parts of `id` must stand in none of them.
    guard WebPushRegistration(id: registration.id) == registration, registration.id.value.utf8.count <= PushID.bytesMax
    else { throw .wrongShape }
    return registration
  }
}

/// An id of a push service: opaque, but neither empty nor endless.
private enum PushID {
  static func required(_ text: String?) throws(JSONError) -> Secret {
    guard let text, (1...bytesMax).contains(text.utf8.count) else { throw .wrongShape }
    return Secret(text)
  }

  /// Far above what any service gives out.
  static let bytesMax = 4096
}
