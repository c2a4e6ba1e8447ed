// The contract of Apple's, Google's and WebPush's services, for the relay's own wake-ups and for the push gateway
// alike.

package import RelayCore

/// One push to one installation, as its provider takes it.
package struct PushMessage: Sendable {
  /// How soon the device is to get it. APNs knows two: `high` and `normal` are priority 10, `low` is 5. WebPush is told
  /// the word as it is. FCM's stands in the payload.
  package enum Urgency: String, Sendable {
    case high
    case normal
    case low
  }

  package let target: PushTarget
  package let payload: PushPayload
  package var urgency: Urgency
  /// Never sent or tried again from then on; told to APNs and WebPush. FCM's `ttl` stands in the payload. nil: APNs is
  /// told nothing, WebPush its provider's own time.
  package var expires: Timestamp?
  /// A later push under the same word takes the place of an earlier one that still waits at the provider: APNs'
  /// collapse id (64 bytes at most), WebPush's topic (32 characters of base64url at most; others are left out). FCM's
  /// stands in the payload.
  package var collapse: String?
  /// APNs' push type; nil sends none.
  package var kind: APNsKind?
  /// Follows the topic of APNs behind a dot: `voip`.
  package var topicSuffix: String?

  package init(
    to target: PushTarget, _ payload: PushPayload, urgency: Urgency = .high, expires: Timestamp? = nil,
    collapse: String? = nil, kind: APNsKind? = nil, topicSuffix: String? = nil
  ) {
    self.target = target
    self.payload = payload
    self.urgency = urgency
    self.expires = expires
    self.collapse = collapse
    self.kind = kind
    self.topicSuffix = topicSuffix
  }
}

/// `apns-push-type`.
package enum APNsKind: String, Sendable, CaseIterable {
  case alert
  case background
  case voip
  case complication
  case fileprovider
  case mdm
}

/// The target of a push. Anyone who knows it can push there.
package enum PushTarget: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "push target"
  /// Hexadecimal, as it stands in the request's path.
  case apns(deviceToken: String)
  /// Stands in the payload too.
  case fcm(registrationToken: String)
  /// Legacy FCM takes several at once; they stand in the payload too.
  case fcmLegacy(registrationTokens: [String])
  case webPush(WebPushSubscription)
}

/// The exact bytes: of APNs' JSON; of the whole body that FCM is sent (`{"message": {…, "token": …}}`, or what legacy
/// FCM takes); of the text that WebPush encrypts, 3,993 bytes at most.
package struct PushPayload: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "push payload"
  package let bytes: [UInt8]
  package init(_ bytes: [UInt8]) { self.bytes = bytes }
  package init(_ text: String) { bytes = Array(text.utf8) }
}

/// The outcome of a push, as the provider's own answer says.
package enum PushOutcome: Sendable, Equatable {
  /// - Parameters:
  ///   - id: the provider's name of the push, where it says one.
  ///   - canonical: the token to be used from now on, where the provider says one (legacy FCM).
  case delivered(id: String?, canonical: PushTarget? = nil)
  /// The target will never work again.
  /// - Parameter since: only registrations that are older are to be cleared; nil for all.
  case dead(PushReason, since: Timestamp? = nil)
  /// Another try cannot succeed, and it is not the target's fault: too large, wrong topic, refused credentials.
  case refused(PushReason)
  /// Worth another try. - Parameter retryAfter: what the provider asks for.
  case temporary(PushReason, retryAfter: Duration? = nil)
  /// One outcome for each of several targets, in their order (legacy FCM alone). Never empty, never nested.
  indirect case several([PushOutcome])
}

/// Why a push was not delivered: the provider's code word, never its text, or a word of ours.
package struct PushReason: Sendable, Hashable, CustomStringConvertible {
  /// The subject of the reason.
  package enum Kind: String, Sendable, CaseIterable {
    /// The installation.
    case target
    /// This message.
    case message
    /// Our key, certificate or account: no message passes until they are put right.
    case credentials
    /// Too many pushes, of all or of this target.
    case quota
    /// The provider answers that it is in trouble.
    case server
    /// No answer came.
    case transport
    /// It did not leave here: the queue is full, the provider is known not to answer, time has run out.
    case local
  }

  package let kind: Kind
  /// ASCII letters, digits, `-` and `_`; 1 to 48 of them.
  package let word: String
  /// The status of HTTP; nil if no answer came.
  package let status: Int?

  package init(_ kind: Kind, _ word: StaticString) {
    self.kind = kind
    self.word = "\(word)"
    status = nil
  }

  /// A provider's own word, or `status-NUMBER` where it is none.
  package init(_ kind: Kind, provider word: String?, status: Int) {
    self.kind = kind
    self.status = status
    let isWord =
      word.map { word in
        (1...48).contains(word.utf8.count)
          && word.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
            default: false
            }
          }
      } ?? false
    self.word = isWord ? word ?? "" : "status-\(status)"
  }

  package var description: String { word }

  package static let queueFull = PushReason(.local, "queue-full")
  /// The breaker is open.
  package static let halted = PushReason(.local, "halted")
  /// The caller's deadline, or the message's `expires`, has come.
  package static let deadline = PushReason(.local, "deadline")
  package static let expired = PushReason(.local, "expired")
  package static let cancelled = PushReason(.local, "cancelled")
}

/// One account at one of the services, with connections of its own.
package protocol PushProvider: Sendable {
  /// One attempt, no retry of its own. Ends within `deadline`.
  func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome
  /// The destination of `target`: trouble with one says nothing of another. For WebPush it is the service behind the
  /// endpoint. Never shown anywhere.
  func destination(of target: PushTarget) -> String
  /// When the credentials end; nil when they do not.
  var credentialsExpire: Timestamp? { get }
  /// The servers of requests, as far as the configuration says: `https://HOST[:PORT]`, perhaps with a path.
  var servers: [String] { get }
  /// Watches the files of the credentials until it is cancelled or the process shuts down; closes the connections then.
  func run() async throws
}

extension PushProvider {
  package func destination(of target: PushTarget) -> String { "" }
  package var credentialsExpire: Timestamp? { nil }
  package var servers: [String] { [] }
  package func run() async throws {}
}
