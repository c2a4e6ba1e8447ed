/// An id by which a provider knows a device.
package enum PushIDKind: Sendable, Equatable, CaseIterable {
  case fcm
  case apns
  /// Apple's id for calls.
  case voip
  case webPush

  /// As commands call it.
  package var word: String {
    switch self {
    case .fcm: "fcm"
    case .apns: "apns"
    case .voip: "voip"
    case .webPush: "webpush"
    }
  }

  package var provider: WakeProvider {
    switch self {
    case .fcm: .fcm
    case .apns, .voip: .apns
    case .webPush: .webPush
    }
  }

  /// Whether a device whose id is dead does not fetch messages any more either (reference 3.9).
  package var endsFetching: Bool { self == .fcm }
}

/// The push ids of one device.
package struct PushIDs: Sensitive, Sendable, Equatable {
  package static let kind: StaticString = "push ids"
  package var fcm: Secret?
  package var apns: Secret?
  package var voip: Secret?
  /// `WebPushRegistration.id`.
  package var webPush: Secret?

  package init(fcm: Secret? = nil, apns: Secret? = nil, voip: Secret? = nil, webPush: Secret? = nil) {
    self.fcm = fcm
    self.apns = apns
    self.voip = voip
    self.webPush = webPush
  }

  package subscript(kind: PushIDKind) -> Secret? {
    get {
      switch kind {
      case .fcm: fcm
      case .apns: apns
      case .voip: voip
      case .webPush: webPush
      }
    }
    set {
      switch kind {
      case .fcm: fcm = newValue
      case .apns: apns = newValue
      case .voip: voip = newValue
      case .webPush: webPush = newValue
      }
    }
  }

  /// The provider that wakes the device; nil for none (reference 3.5).
  package var provider: WakeProvider? { WakeProvider.allCases.first { self[$0.idKind] != nil } }
}

/// The id by which a device registers at one provider.
package enum PushRegistration: Sensitive, Sendable, Equatable {
  package static let kind: StaticString = "push registration"
  case fcm(Secret)
  case apns(Secret, voip: Secret?)
  case webPush(Secret)

  /// All ids that the device has afterwards.
  package var ids: PushIDs {
    switch self {
    case .fcm(let id): PushIDs(fcm: id)
    case .apns(let id, let voip): PushIDs(apns: id, voip: voip)
    case .webPush(let id): PushIDs(webPush: id)
    }
  }
}
