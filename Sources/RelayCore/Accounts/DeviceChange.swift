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

  package var gcmID = Patch<Secret?>.keep
  package var apnID = Patch<Secret?>.keep
  package var voipApnID = Patch<Secret?>.keep
  package var webPushID = Patch<Secret?>.keep
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

  /// A GCM id takes the place of all others.
  package static func registerGCM(_ id: Secret, fetchesMessages: Bool, at now: Timestamp) -> DeviceChange {
    var change = DeviceChange()
    change.gcmID = .set(id)
    change.apnID = .set(nil)
    change.voipApnID = .set(nil)
    change.webPushID = .set(nil)
    change.pushRegistered = .set(now)
    change.fetchesMessages = .set(fetchesMessages)
    return change
  }

  /// APN ids take the place of all others; such a device also fetches.
  package static func registerAPN(_ id: Secret, voip: Secret?, at now: Timestamp) -> DeviceChange {
    var change = DeviceChange()
    change.gcmID = .set(nil)
    change.apnID = .set(id)
    change.voipApnID = .set(voip)
    change.webPushID = .set(nil)
    change.pushRegistered = .set(now)
    change.fetchesMessages = .set(true)
    return change
  }

  /// A browser's subscription takes the place of all ids; such a device also fetches.
  package static func registerWebPush(_ id: Secret, at now: Timestamp) -> DeviceChange {
    var change = DeviceChange()
    change.gcmID = .set(nil)
    change.apnID = .set(nil)
    change.voipApnID = .set(nil)
    change.webPushID = .set(id)
    change.pushRegistered = .set(now)
    change.fetchesMessages = .set(true)
    return change
  }

  package static var forgetGCM: DeviceChange {
    var change = DeviceChange()
    change.gcmID = .set(nil)
    change.fetchesMessages = .set(false)
    return change
  }

  package static var forgetAPN: DeviceChange {
    var change = DeviceChange()
    change.apnID = .set(nil)
    change.voipApnID = .set(nil)
    change.fetchesMessages = .set(false)
    return change
  }

  package static var forgetWebPush: DeviceChange {
    var change = DeviceChange()
    change.webPushID = .set(nil)
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
