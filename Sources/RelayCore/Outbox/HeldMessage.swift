/// A message that was accepted for a peer which could not be reached then: a row of the outbox.
package struct HeldMessage: Sendable, Equatable {
  /// Rises in the order of acceptance.
  package let sequence: Int64
  package let message: PeerSubmission
  /// When its sender was answered.
  package let accepted: Timestamp
  /// How often the peer was asked to take it.
  package let attempts: Int
  /// Not to be tried before.
  package let notBefore: Timestamp
  package init(
    sequence: Int64, message: PeerSubmission, accepted: Timestamp, attempts: Int, notBefore: Timestamp
  ) {
    self.sequence = sequence
    self.message = message
    self.accepted = accepted
    self.attempts = attempts
    self.notBefore = notBefore
  }
}

/// How much the outbox takes, for each peer.
package struct OutboxBounds: Sendable, Equatable {
  package let messagesMax: Int
  package let bytesMax: Int64
  /// Older messages are given up.
  package let age: Duration
  package init(messagesMax: Int, bytesMax: Int64, age: Duration) {
    self.messagesMax = messagesMax
    self.bytesMax = bytesMax
    self.age = age
  }
}

/// The messages that wait for one peer.
package struct OutboxUsage: Sendable, Equatable {
  package let relay: RelayName
  package let messages: Int
  package let bytes: Int64
  /// When the oldest was accepted.
  package let oldest: Timestamp
  /// When the next is due.
  package let nextAttempt: Timestamp
  /// When all of it was made due last; 1970 for never.
  package let retried: Timestamp
  package init(
    relay: RelayName, messages: Int, bytes: Int64, oldest: Timestamp, nextAttempt: Timestamp, retried: Timestamp
  ) {
    self.relay = relay
    self.messages = messages
    self.bytes = bytes
    self.oldest = oldest
    self.nextAttempt = nextAttempt
    self.retried = retried
  }
}

/// A device that a peer confirmed, by accepting a message for it.
package struct ConfirmedDevice: Sendable, Hashable {
  package let id: DeviceID
  /// As the accepted message gave it; 0 when it gave none.
  package let registrationID: Int64
  package init(id: DeviceID, registrationID: Int64) {
    self.id = id
    self.registrationID = registrationID
  }
}
