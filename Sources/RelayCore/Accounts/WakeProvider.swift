/// The services by which this relay wakes its own devices. The values stand in the stores. If a device has ids of
/// several, the first one wakes it.
package enum WakeProvider: Int16, Sendable, CaseIterable {
  case fcm = 1
  case apns = 2
  case webPush = 3

  /// As metrics and commands call it.
  package var word: String {
    switch self {
    case .fcm: "fcm"
    case .apns: "apns"
    case .webPush: "webpush"
    }
  }

  /// The id without which the provider wakes no device. A call's id alone reaches nobody.
  package var idKind: PushIDKind {
    switch self {
    case .fcm: .fcm
    case .apns: .apns
    case .webPush: .webPush
    }
  }
}
