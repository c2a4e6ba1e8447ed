/// The changes that one request makes to a device, and with it to its account (reference 1.5).
package struct DeviceChange: Sendable, Equatable {
  package enum Patch<Value: Sendable & Equatable>: Sendable, Equatable {
    case keep
    case set(Value)

    /// The value after the patch.
    package func applied(to value: Value) -> Value {
      switch self {
      case .keep: value
      case .set(let new): new
      }
    }
  }

  private var pushIDs: [PushIDKind: Secret?] = [:]
  package var pushRegistered = Patch<Timestamp?>.keep
  package var fetchesMessages = Patch<Bool>.keep
  package var signalingKey = Patch<Secret>.keep
  package var registrationID = Patch<Int32>.keep
  package var name = Patch<String?>.keep
  package var userAgent = Patch<String?>.keep
  package var lastSeen = Patch<Timestamp>.keep
  /// The account's.
  package var supportsSMS = Patch<Bool>.keep
  package var voice = Patch<Bool>.keep
  package var registrationLock = Patch<PasswordHash?>.keep
  /// Whether the account is found by its number's token, here and at peers. True until a client says otherwise; a
  /// registration may say it too.
  package var isDiscoverable = Patch<Bool>.keep

  package init() {}

  package subscript(kind: PushIDKind) -> Patch<Secret?> {
    get { pushIDs[kind].map(Patch.set) ?? .keep }
    set {
      switch newValue {
      case .keep: pushIDs.removeValue(forKey: kind)
      case .set(let id): pushIDs.updateValue(id, forKey: kind)
      }
    }
  }

  /// The ids take the place of all others.
  /// - Parameter fetchesMessages: true unless the client says otherwise, which only one with an FCM id can.
  package static func register(
    _ registration: PushRegistration, fetchesMessages: Bool = true, at now: Timestamp
  ) -> DeviceChange {
    var change = DeviceChange()
    for kind in PushIDKind.allCases { change[kind] = .set(registration.ids[kind]) }
    change.pushRegistered = .set(now)
    change.fetchesMessages = .set(fetchesMessages)
    return change
  }

  /// Ids of other providers stay.
  package static func forget(_ provider: WakeProvider) -> DeviceChange {
    var change = DeviceChange()
    for kind in PushIDKind.allCases where kind.provider == provider { change[kind] = .set(nil) }
    change.fetchesMessages = .set(false)
    return change
  }

  package static func fetches(_ value: Bool) -> DeviceChange {
    var change = DeviceChange()
    change.fetchesMessages = .set(value)
    return change
  }
}

// As plain text or bytes, and as little to be shown as those.
extension DeviceChange: Sensitive { package static let kind: StaticString = "device change" }
