// What a client or a peer is told when a request fails. This file is the one table of them; docs/errors.md
// mirrors it and a test compares the two.

/// A refusal as the wire shows it: a status, a code for people and scripts, and perhaps a JSON body.
package struct Problem: Error, Sendable {
  package enum Kind: String, Sendable, CaseIterable {
    case invalidNumber = "invalid-number"
    case undecodableToken = "undecodable-token"
    case syncThroughRelay = "sync-through-relay"
    case unauthorized = "unauthorized"
    case codeRefused = "code-refused"
    case peerRefused = "peer-refused"
    case scopeRefused = "scope-refused"
    case invitationRefused = "invitation-refused"
    case nameTaken = "name-taken"
    case notFound = "not-found"
    case methodNotAllowed = "method-not-allowed"
    case mismatchedDevices = "mismatched-devices"
    case staleDevices = "stale-devices"
    case bodyTooLarge = "body-too-large"
    case rateLimited = "rate-limited"
    case malformedBody = "malformed-body"
    case unsupportedMediaType = "unsupported-media-type"
    case unknownTransport = "unknown-transport"
    case numberElsewhere = "number-elsewhere"
    case invalidDeviceSelector = "invalid-device-selector"
    case unavailable = "unavailable"
    case peerUnavailable = "peer-unavailable"
    case internalError = "internal"

    package var status: Int {
      switch self {
      case .invalidNumber, .undecodableToken, .syncThroughRelay: 400
      case .unauthorized: 401
      case .codeRefused, .peerRefused, .scopeRefused, .invitationRefused: 403
      case .notFound: 404
      case .methodNotAllowed: 405
      case .mismatchedDevices, .nameTaken: 409
      case .staleDevices: 410
      case .bodyTooLarge, .rateLimited: 413
      case .malformedBody, .unsupportedMediaType, .unknownTransport: 415
      case .numberElsewhere: 417
      case .invalidDeviceSelector: 422
      case .internalError: 500
      case .unavailable, .peerUnavailable: 503
      }
    }

    /// One sentence for the person who reads the answer; never holds request data.
    package var text: String {
      switch self {
      case .invalidNumber: "The number is not + followed by 10 to 15 digits."
      case .undecodableToken: "A contact token is not the base64 of 10 bytes."
      case .syncThroughRelay: "Messages to your own number cannot go through a relay."
      case .unauthorized: "Credentials are required to access this resource."
      case .codeRefused: "The verification code is wrong, used, or expired: request a new one."
      case .peerRefused: "This relay does not federate with you, or has suspended you."
      case .scopeRefused: "This peering does not cover that request."
      case .invitationRefused: "The invitation is unknown, used, or expired: ask for a new one."
      case .nameTaken: "That relay name is held by another relay here, or you are known here by another name."
      case .notFound: "There is no such resource."
      case .methodNotAllowed: "This resource does not know that method."
      case .mismatchedDevices: "The message's devices are not the destination's."
      case .staleDevices: "A device was installed anew: start a new session with it."
      case .bodyTooLarge: "The request's body is too large."
      case .rateLimited: "Too many requests: try again after the time in Retry-After."
      case .malformedBody: "The body is not the JSON that this resource expects."
      case .unsupportedMediaType: "The body must be sent as application/json."
      case .unknownTransport: "The transport must be sms or voice."
      case .numberElsewhere: "The number belongs to another relay."
      case .invalidDeviceSelector: "The device must be a number or *."
      case .unavailable: "The relay cannot serve this just now: try again."
      case .peerUnavailable: "The other relay cannot be reached just now: try again."
      case .internalError: "The relay failed."
      }
    }
  }

  /// The arrays of a 409 or 410; always written whole (reference 1.1).
  package enum Devices: Sendable, Equatable {
    case mismatched(missing: [DeviceID], extra: [DeviceID])
    case stale([DeviceID])
  }

  package let kind: Kind
  package let devices: Devices?
  /// Sent as `Retry-After`, whole seconds, rounded up.
  package let retryAfter: Duration?
  /// For the log alone: what a store said, without data.
  package let reason: String?

  package init(_ kind: Kind, devices: Devices? = nil, retryAfter: Duration? = nil, reason: String? = nil) {
    self.kind = kind
    self.devices = devices
    self.retryAfter = retryAfter
    self.reason = reason
  }

  package static func mismatched(missing: [DeviceID], extra: [DeviceID]) -> Problem {
    Problem(.mismatchedDevices, devices: .mismatched(missing: missing, extra: extra))
  }
  package static func stale(_ devices: [DeviceID]) -> Problem { Problem(.staleDevices, devices: .stale(devices)) }

  /// What a store's failure is to a caller; the reason goes to the log, not to the wire.
  package init(_ error: StoreError) {
    switch error {
    case .unavailable: self.init(.unavailable, retryAfter: .seconds(1), reason: "\(error)")
    case .corrupted: self.init(.internalError, reason: "\(error)")
    }
  }
}

/// Two refusals are equal that look the same on the wire.
extension Problem: Equatable {
  package static func == (a: Problem, b: Problem) -> Bool {
    a.kind == b.kind && a.devices == b.devices && a.retryAfter == b.retryAfter
  }
}
