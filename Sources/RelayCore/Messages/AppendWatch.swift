/// Learns of the messages that this process appends, behind their commit.
package protocol AppendWatch: Sendable {
  /// Whether `stored` should be told the places of messages in `mailbox`. Asked before the append's statement begins.
  func watches(_ mailbox: DeviceAddress) -> Bool

  /// The envelopes of one append are durable. Told before the append returns, once for each append that succeeds.
  ///
  /// One call at a time, in the order of the sequences: a store tells of no message of a mailbox before it has told of
  /// all others that it appended there with lower sequences. Returns at once, because the next append waits for it.
  /// - Parameter messages: in the order of the append.
  func stored(_ messages: [AppendedEnvelope])
}

/// An envelope behind its append.
package struct AppendedEnvelope: Sendable, Equatable {
  package let envelope: Envelope
  /// nil for a repetition, which was not stored again, and in a mailbox that nobody watches.
  package let place: AppendedPlace?

  package init(_ envelope: Envelope, at place: AppendedPlace?) {
    self.envelope = envelope
    self.place = place
  }
}

/// The place of an envelope that was just stored, and what its mailbox held besides.
package struct AppendedPlace: Sendable, Equatable {
  package let sequence: Int64
  /// The sequences of all envelopes that had been accepted into the mailbox, and were in it, when the append began;
  /// those of the same batch, with lower sequences, may be among them. At most `othersMax`, in no order; nil for more.
  /// Envelopes from before yesterday may be left out (docs/architecture.md, "Direct delivery").
  package let others: [Int64]?

  package init(sequence: Int64, others: [Int64]?) {
    self.sequence = sequence
    self.others = others
  }

  /// The mailbox of a client that acknowledges what it gets holds a few.
  package static let othersMax = 32
}
