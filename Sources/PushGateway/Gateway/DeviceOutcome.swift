package import Push
import RelayCore

/// The outcome for one device of a notification.
package enum DeviceOutcome: Sendable, Equatable {
  /// Pushed, or there was nothing to push.
  case served
  /// Given up for good, and not the push key's fault: the homeserver must not repeat it, nor delete its pusher.
  case dropped(PushReason)
  /// The push key will never work again: the homeserver deletes its pusher.
  case rejected(PushReason)
  /// The homeserver is to repeat it.
  case failed(PushReason, retryAfter: Duration? = nil)
}

extension DeviceOutcome {
  /// The result that a repeat need not try again; nil if it is to try again.
  var remembered: PushResult? {
    switch self {
    case .served, .dropped: .served
    case .rejected: .rejected
    case .failed: nil
    }
  }
}

extension PushReason {
  static let unknownApp = PushReason(.target, "unknown-app")
  static let ambiguousApp = PushReason(.target, "ambiguous-app")
  static let unusableDefault = PushReason(.target, "default-payload")
  static let undecodableKey = PushReason(.target, "undecodable-key")
  static let incompleteSubscription = PushReason(.target, "incomplete-subscription")
  static let hopelesslyLarge = PushReason(.message, "cannot-be-shortened")
  /// As many pushes of the app are under way as may be.
  static let overloaded = PushReason(.local, "inflight-limit")
}

/// The answer to the homeserver.
package enum NotifyAnswer: Sendable, Equatable {
  /// 200. - Parameter rejected: push keys in the order of the devices.
  case done(rejected: [String])
  /// 502: the answer does not name the devices that were served; a repeat does not reach them again.
  case failed(retryAfter: Duration?)

  /// The longest pause that a provider may ask of a homeserver: strangers may name some of the providers.
  package static let retryAfterMax = Duration.seconds(300)

  /// - Parameter outcomes: one for each of the devices.
  package init(_ devices: [NotifiedDevice], _ outcomes: [DeviceOutcome]) {
    var rejected: [String] = []
    var hasFailed = false
    var wait: Duration?
    for (device, outcome) in zip(devices, outcomes) {
      switch outcome {
      case .served, .dropped: break
      case .rejected: rejected.append(device.pushKey)
      case .failed(_, let retryAfter):
        hasFailed = true
        wait = [wait, retryAfter].compactMap(\.self).max().map { min($0, Self.retryAfterMax) }
      }
    }
    self = hasFailed ? .failed(retryAfter: wait) : .done(rejected: rejected)
  }
}
