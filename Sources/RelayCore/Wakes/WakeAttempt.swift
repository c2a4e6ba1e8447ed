/// One attempt to wake a device, as the flight recorder keeps it: neither id nor content.
package struct WakeAttempt: Sendable, Equatable {
  /// The kind of push. The values stand in the stores.
  package enum Kind: String, Sendable, CaseIterable {
    /// That something waits, and nothing of what.
    case wakeUp = "wake-up"
    /// The message itself, encrypted.
    case content
    /// A VoIP push.
    case call
  }

  /// The outcome of the job. The values stand in the stores.
  package enum Outcome: String, Sendable, CaseIterable {
    case delivered
    /// The device had connected.
    case connected
    /// Nothing waited any more.
    case fetched
    /// Receipts alone waited, which are no reason to wake a device through APNs.
    case receipts
    /// The device is gone, or has no push id.
    case unregistered
    /// The relay has no account at the device's provider.
    case unconfigured
    /// The provider does not know the id any more: it was cleared.
    case dead
    /// The same, but the device had registered anew.
    case superseded
    /// The provider will not take it, whenever it is sent.
    case refused
    /// It will be tried again.
    case putOff = "put-off"
    /// It was not worth sending any more.
    case expired
  }

  package let asked: Timestamp
  package let claimed: Timestamp
  /// From 1.
  package let number: Int
  /// nil where it did not come that far.
  package let provider: WakeProvider?
  /// nil where nothing was sent.
  package let kind: Kind?
  /// The provider's code word, or one of ours where it gave none; nil where all went well or nothing was sent.
  package let answer: String?
  /// The provider's HTTP status, where there was one.
  package let status: Int?
  /// From the sending to the answer.
  package let latency: Duration?
  package let outcome: Outcome
  package let isTest: Bool

  package init(
    asked: Timestamp, claimed: Timestamp, number: Int, provider: WakeProvider?, kind: Kind?, answer: String?,
    status: Int?, latency: Duration?, outcome: Outcome, isTest: Bool
  ) {
    self.asked = asked
    self.claimed = claimed
    self.number = number
    self.provider = provider
    self.kind = kind
    self.answer = answer
    self.status = status
    self.latency = latency
    self.outcome = outcome
    self.isTest = isTest
  }

  /// Attempts that are kept of a device.
  package static let keptMax = 16
  package static let keptFor = Duration.seconds(7 * 86_400)
}
