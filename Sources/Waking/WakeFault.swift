package import RelayCore
import RelayMetrics

/// Why a device was not woken, in one word, with what to do about it (docs/waking.md, "Why a device was not woken").
package enum WakeFault: String, Sendable, CaseIterable {
  case noDevice = "no-such-device"
  case noPushID = "no-push-id"
  case notConfigured = "provider-not-configured"
  case noProcess = "no-process"
  case credentials = "credentials-refused"
  case topic = "wrong-topic"
  case environment = "wrong-environment"
  case deadID = "dead-push-id"
  case tooLarge = "too-large"
  case refused = "refused"
  case quota = "quota"
  case provider = "provider-in-trouble"
  case unreachable = "provider-unreachable"
  case untrusted = "tls-not-trusted"
  case silent = "provider-silent"
  case halted = "provider-halted"
  case expired
  case busy
  case connected = "device-connected"

  /// - Returns: nil for an attempt that woke the device, or need not have.
  package init?(_ attempt: WakeAttempt) {
    switch attempt.outcome {
    case .delivered, .connected, .fetched, .receipts: return nil
    case .unregistered: self = .noPushID
    case .unconfigured: self = .notConfigured
    case .dead, .superseded: self = .deadID
    case .expired: self = .expired
    case .refused, .putOff: self.init(answer: attempt.answer ?? "", status: attempt.status)
    }
  }

  private init(answer: String, status: Int?) {
    if let known = Self.words[answer] {
      self = known
      return
    }
    self =
      switch status {
      case 413: .tooLarge
      case 401, 403: Self.messageWords.contains(answer) ? .refused : .credentials
      case 429: .quota
      case let status? where status >= 500: .provider
      default: .refused
      }
  }

  /// Words of Apple about the app and not the device.
  static let topicWords: Set<String> = ["TopicDisallowed", "DeviceTokenNotForTopic", "BadTopic", "MissingTopic"]
  /// Words of Google about one message: our credentials are good for others.
  private static let messageWords: Set<String> = ["SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR"]
  private static let words: [String: WakeFault] = {
    var words: [String: WakeFault] = [
      "unsigned": .credentials, "token-refused": .credentials, "TooManyProviderTokenUpdates": .credentials,
      "token-failed": .provider, "token-unreadable": .provider, "no-token": .provider, "unresolved": .unreachable,
      "PayloadTooLarge": .tooLarge, "BadDeviceToken": .environment,
      "unreachable": .unreachable, "lost": .unreachable, "lost-too": .unreachable, "not-taken": .unreachable,
      "handshake": .untrusted, "timed-out": .silent,
      "token-timed-out": .silent, "deadline": .silent, "halted": .halted, "queue-full": .busy, "cancelled": .busy,
      "expired": .expired, "resolver-busy": .busy, "too-large": .tooLarge,
    ]
    for word in topicWords { words[word] = .topic }
    return words
  }()

  /// The fault's text for the operator.
  package var text: String {
    switch self {
    case .noDevice: "there is no such device"
    case .noPushID: "the device has no push id: its app has registered none, or the provider did not know it any more"
    case .notConfigured: "this relay has no account at the device's provider"
    case .noProcess: "no process of this relay took the wake-up"
    case .credentials: "the provider refused this relay's credentials"
    case .topic: "the provider says that the device's id belongs to another app than the configured topic"
    case .environment: "the provider says that it has not issued the device's push id"
    case .deadID: "the provider does not know the device's push id any more; it was cleared"
    case .tooLarge: "the provider says that the push is too large"
    case .refused: "the provider refused the push"
    case .quota: "the provider says that there are too many pushes"
    case .provider: "the provider is in trouble"
    case .unreachable: "the provider could not be reached"
    case .untrusted: "no TLS connection to the provider could be made"
    case .silent: "the provider did not answer in time"
    case .halted: "the provider did not take messages lately, and is tried now and then"
    case .expired: "the wake-up was too old to be worth sending"
    case .busy: "too much was on its way to the provider"
    case .connected: "the device is connected: its messages reach it without a push"
    }
  }

  package var remedy: String {
    switch self {
    case .noDevice: "Check the number and the device's id; the account may have registered anew."
    case .noPushID: "Let the app register for push again: opening it does, as a rule."
    case .notConfigured: "Configure push.apns, push.fcm or push.webpush, as docs/push.md says, and restart."
    case .noProcess: "Is `relay serve` running on these stores, with this provider configured? See its log."
    case .credentials:
      "Check the key file and its ids (push.apns.*, push.fcm.*): revoked, of another team or project, or a wrong clock?"
    case .topic: "push.apns.topic must be the app's bundle id, and the key or certificate must be for it."
    case .environment:
      "push.apns.sandbox must be true for apps built for development, and false for those of the App Store and TestFlight."
    case .deadID: "Nothing to do: the app registers a new id when it is opened."
    case .tooLarge: "Set push.content: wake-up."
    case .refused: "The provider's own word tells more: look it up in docs/push.md."
    case .quota: "It is tried again when the provider allows. Is something sending far too much?"
    case .provider: "It is tried again. See the provider's status page."
    case .unreachable: "Check name resolution and the firewall for outgoing connections to the provider."
    case .untrusted: "Check the CA certificates of this machine, push.endpoints.*, and anything that intercepts TLS."
    case .silent: "It is tried again. See the provider's status page, and what stands between."
    case .halted: "`relay push history` shows what it answered before; it is tried again by itself."
    case .expired: "Nothing to do: the message waits in the mailbox. A wake-up is worth sending for a day."
    case .busy:
      "It is tried again in a moment. `\(RelayMetric.wakes.waiting.name)` shows how much waits; "
        + "is the provider in trouble?"
    case .connected: "Nothing to do; close the app and try again, or add --force to push all the same."
    }
  }
}
