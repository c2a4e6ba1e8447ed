// The refusals that clients and peers are told when a request fails. This file is the one table of them.
// docs/errors.md mirrors it, and a test compares the two.

/// A refusal as the wire shows it: a status, a code for people and scripts, and perhaps a JSON body.
package struct Problem: Error, Sendable {
  package enum Kind: String, Sendable, CaseIterable {
    case invalidNumber = "invalid-number"
    case undecodableToken = "undecodable-token"
    case undecodableElement = "undecodable-element"
    case invalidPrefix = "invalid-prefix"
    case syncThroughRelay = "sync-through-relay"
    case uploadIncomplete = "upload-incomplete"
    case undecodableMessage = "undecodable-message"
    case invalidAddress = "invalid-address"
    case invalidHost = "invalid-host"
    case subscriptionRefused = "subscription-refused"
    case unauthorized = "unauthorized"
    case credentialsRefused = "credentials-refused"
    case codeRefused = "code-refused"
    case tokenRefused = "token-refused"
    case registrationLocked = "registration-locked"
    case numberBanned = "number-banned"
    case identityRefused = "identity-refused"
    case masterDevice = "master-device"
    case deviceRefused = "device-refused"
    case urlRefused = "url-refused"
    case peerRefused = "peer-refused"
    case addressRefused = "address-refused"
    case scopeRefused = "scope-refused"
    case sourceRefused = "source-refused"
    case originRefused = "origin-refused"
    case invitationRefused = "invitation-refused"
    case nameTaken = "name-taken"
    case urlFixed = "url-fixed"
    case notFound = "not-found"
    case methodNotAllowed = "method-not-allowed"
    case requestTimeout = "request-timeout"
    case mismatchedDevices = "mismatched-devices"
    case alreadyUploaded = "already-uploaded"
    case staleDevices = "stale-devices"
    case tooManyDevices = "too-many-devices"
    case bodyTooLarge = "body-too-large"
    case tooManyTokens = "too-many-tokens"
    case tooManyElements = "too-many-elements"
    case rateLimited = "rate-limited"
    case contactBudgetExceeded = "contact-budget-exceeded"
    case enumerationRefused = "enumeration-refused"
    case budgetExceeded = "budget-exceeded"
    case mailboxFull = "mailbox-full"
    case senderShareFull = "sender-share-full"
    case peerShareFull = "peer-share-full"
    case quotaExceeded = "quota-exceeded"
    case malformedBody = "malformed-body"
    case unsupportedMediaType = "unsupported-media-type"
    case unknownTransport = "unknown-transport"
    case signatureRefused = "signature-refused"
    case numberElsewhere = "number-elsewhere"
    case invalidDeviceSelector = "invalid-device-selector"
    case deviceNameTooLong = "device-name-too-long"
    case upgradeRequired = "upgrade-required"
    case unavailable = "unavailable"
    case peerUnavailable = "peer-unavailable"
    case internalError = "internal"

    package var status: Int {
      switch self {
      case .invalidNumber, .undecodableToken, .undecodableElement, .invalidPrefix, .syncThroughRelay,
        .uploadIncomplete, .undecodableMessage, .invalidAddress, .invalidHost, .subscriptionRefused:
        400
      case .unauthorized: 401
      case .credentialsRefused, .codeRefused, .tokenRefused, .registrationLocked, .numberBanned, .identityRefused,
        .masterDevice,
        .deviceRefused, .urlRefused, .peerRefused, .addressRefused, .scopeRefused, .sourceRefused, .originRefused,
        .invitationRefused:
        403
      case .notFound: 404
      case .methodNotAllowed: 405
      case .requestTimeout: 408
      case .mismatchedDevices, .nameTaken, .urlFixed, .alreadyUploaded: 409
      case .staleDevices: 410
      case .tooManyDevices: 411
      case .bodyTooLarge, .tooManyTokens, .tooManyElements, .rateLimited, .contactBudgetExceeded, .enumerationRefused,
        .budgetExceeded, .mailboxFull, .senderShareFull, .peerShareFull, .quotaExceeded:
        413
      case .malformedBody, .unsupportedMediaType, .unknownTransport, .signatureRefused: 415
      case .numberElsewhere: 417
      case .invalidDeviceSelector, .deviceNameTooLong: 422
      case .upgradeRequired: 426
      case .internalError: 500
      case .unavailable, .peerUnavailable: 503
      }
    }

    /// One sentence for the person who reads the answer; never holds request data.
    package var text: String {
      switch self {
      case .invalidNumber: "The number is not + followed by 10 to 15 digits."
      case .undecodableToken: "A contact token is not the base64 of 10 bytes."
      case .undecodableElement: "An element is not the base64 of an element of ristretto255."
      case .invalidPrefix: "The prefix is not 0 to 8 hexadecimal digits, or `after` is not what an answer named."
      case .syncThroughRelay: "Messages to your own number cannot go through a relay."
      case .uploadIncomplete:
        "The upload did not declare its length, or did not arrive whole and in time: send it again."
      case .undecodableMessage: "The message is not the base64 of a signal that can be delivered."
      case .invalidAddress: "The provisioning address is not 16 bytes in URL-safe base64."
      case .invalidHost: "A request must name the host that it is for once, and in one way."
      case .subscriptionRefused:
        "The push subscription has no endpoint that this relay may push to, or keys that cannot be used."
      case .unauthorized: "Credentials are required to access this resource."
      case .credentialsRefused: "The credentials of the WebSocket are not those of one device."
      case .codeRefused: "The verification code is wrong, used, or expired: request a new one."
      case .tokenRefused:
        "The number token is not for this number, is used, void or older than ten minutes, or this relay takes none."
      case .registrationLocked:
        "The number has a registration lock: send its pin, or wait until the account has not been seen for its time."
      case .numberBanned: "The operator of this relay lets the number have no account."
      case .identityRefused: "Only device 1 may change the account's identity key."
      case .masterDevice: "Device 1 cannot be removed."
      case .deviceRefused: "Only device 1 of the account may do this."
      case .urlRefused: "The URL is incomplete, altered, or expired: ask for a new one."
      case .peerRefused: "This relay does not federate with you, or has suspended you."
      case .addressRefused: "Your relay's URL leads to an address that is not a public one."
      case .scopeRefused: "This peering does not cover that request."
      case .sourceRefused: "The source is an account of another relay: you cannot speak for it."
      case .originRefused: "The page is not one of those that may use this relay from a browser."
      case .invitationRefused: "The invitation is unknown, used, or expired: ask for a new one."
      case .nameTaken: "That relay name is held by another relay here, or you are known here by another name."
      case .urlFixed: "You are known here under another URL: the operator of this relay has to change it."
      case .notFound: "There is no such resource."
      case .methodNotAllowed: "This resource does not know that method."
      case .requestTimeout: "The request came too slowly, or stopped in its midst: send it again."
      case .mismatchedDevices: "The message's devices are not the destination's."
      case .alreadyUploaded: "This attachment was uploaded already: ask for another one."
      case .tooManyDevices: "The account has as many active devices as it may have: remove one first."
      case .staleDevices: "A device was installed anew: start a new session with it."
      case .bodyTooLarge: "The request's body is too large."
      case .tooManyTokens: "The request asks for more contacts than one look-up may: ask for them in several."
      case .tooManyElements: "The request has more elements than may be evaluated at once: send them in several."
      case .rateLimited: "Too many requests: try again after the time in Retry-After."
      case .contactBudgetExceeded:
        "The account has asked for as many different contacts as it may by now: try again after the time in Retry-After."
      case .enumerationRefused:
        "These contacts look like numbers in a row, or at random: ask for those of an address book."
      case .budgetExceeded: "Your relay has used up its budget here: try again after the time in Retry-After."
      case .mailboxFull: "The recipient's mailbox holds as many messages as it may: try again later."
      case .senderShareFull: "The recipient's mailbox holds as many messages of yours as it may: try again later."
      case .peerShareFull:
        "The recipient's mailbox holds as many messages of your relay, or of all other relays, as it may: try again later."
      case .quotaExceeded: "The account's attachments take all the room it may have: wait until some expire."
      case .malformedBody: "The body is not the JSON, or the protobuf, that this resource expects."
      case .unsupportedMediaType:
        "The body must be sent as application/json (a batch of a peer: application/x-protobuf)."
      case .unknownTransport: "The transport must be sms or voice."
      case .signatureRefused: "The signed prekey is not signed by the account's identity key."
      case .numberElsewhere: "The number belongs to another relay."
      case .invalidDeviceSelector: "The device must be a number or *."
      case .deviceNameTooLong: "The device's name has more than 50 characters, or more than 400 bytes."
      case .upgradeRequired: "This resource is a WebSocket: ask for an upgrade to it."
      case .unavailable: "The relay cannot serve this just now: try again."
      case .peerUnavailable: "The other relay cannot be reached just now: try again."
      case .internalError: "The relay failed."
      }
    }
  }

  /// The JSON body of a 409, 410 or 411; always written whole (reference 1.1).
  package enum Devices: Sendable, Equatable {
    case mismatched(missing: [DeviceID], extra: [DeviceID])
    case stale([DeviceID])
    case full(current: Int, max: Int)
  }

  package let kind: Kind
  package let devices: Devices?
  /// Sent as `Retry-After`, whole seconds, rounded up.
  package let retryAfter: Duration?
  /// For the log alone: what a store said, without data.
  package let reason: String?
  /// The likely cause, where `kind` covers more than one.
  package let hint: Hint?

  /// Said behind the text of the kind; never holds request data.
  package enum Hint: String, Sendable, CaseIterable {
    /// A hint for `notFound`, if a number was asked for.
    case number =
      """
      The number has no active account here, or none at the relay that `relay` names. If it is another operator's, name \
      the `relay` that the directory tells of it.
      """
  }

  package init(
    _ kind: Kind, devices: Devices? = nil, retryAfter: Duration? = nil, reason: String? = nil, hint: Hint? = nil
  ) {
    self.kind = kind
    self.devices = devices
    self.retryAfter = retryAfter
    self.reason = reason
    self.hint = hint
  }

  /// One or two sentences for the person who reads the answer; never holds request data.
  package var text: String { hint.map { "\(kind.text) \($0.rawValue)" } ?? kind.text }

  package static func mismatched(missing: [DeviceID], extra: [DeviceID]) -> Problem {
    Problem(.mismatchedDevices, devices: .mismatched(missing: missing, extra: extra))
  }
  package static func stale(_ devices: [DeviceID]) -> Problem { Problem(.staleDevices, devices: .stale(devices)) }

  /// Turns a store's failure into the caller's refusal. The reason goes to the log, not to the wire.
  package init(_ error: StoreError) {
    switch error {
    case .unavailable: self.init(.unavailable, retryAfter: .seconds(1), reason: "\(error)")
    case .corrupted: self.init(.internalError, reason: "\(error)")
    }
  }
}

/// Two refusals are equal that programs on the other side take for the same.
extension Problem: Equatable {
  package static func == (a: Problem, b: Problem) -> Bool {
    a.kind == b.kind && a.devices == b.devices && a.retryAfter == b.retryAfter
  }
}
