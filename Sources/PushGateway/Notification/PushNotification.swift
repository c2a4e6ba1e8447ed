import OrderedCollections
package import RelayCore

/// A homeserver's word about one event or about new counts (reference 2.1). Holds texts that people wrote.
package struct PushNotification: Sensitive, Sendable {
  package static let kind: StaticString = "notification"

  /// Texts are nil where the key is absent or `null`; an empty one is kept, as APNs' wording needs it.
  package var eventID: String?
  package var roomID: String?
  package var type: String?
  package var sender: String?
  package var senderDisplayName: String?
  package var roomName: String?
  package var roomAlias: String?
  package var membership: String?
  package var userIsTarget = false
  package var isLowPriority = false
  package var content: JSONObject?
  package var counts = NotificationCounts()
  /// Never empty.
  package var devices: [NotifiedDevice] = []

  package init() {}
}

package struct NotificationCounts: Sendable, Equatable {
  package var unread: Int64?
  package var missedCalls: Int64?

  package init(unread: Int64? = nil, missedCalls: Int64? = nil) {
    self.unread = unread
    self.missedCalls = missedCalls
  }

  package var isAbsent: Bool { unread == nil && missedCalls == nil }
}

/// One pusher that the notification is for.
package struct NotifiedDevice: Sensitive, Sendable {
  package static let kind: StaticString = "notified device"
  package let appID: String
  /// Anyone who knows it can push to the installation.
  package let pushKey: String
  package let data: JSONObject?

  package init(appID: String, pushKey: String, data: JSONObject? = nil) {
    self.appID = appID
    self.pushKey = pushKey
    self.data = data
  }

  package enum DefaultPayload: Sendable, Equatable {
    case absent
    case given(JSONObject)
    /// Anything but an object, `null` too.
    case unusable
  }

  package var defaultPayload: DefaultPayload {
    switch data?["default_payload"] {
    case nil: .absent
    case .object(let object): .given(object)
    case .some: .unusable
    }
  }
}

extension String? {
  /// nil for an empty one too: what the reference calls missing.
  var unlessEmpty: String? { flatMap { $0.isEmpty ? nil : $0 } }
}
