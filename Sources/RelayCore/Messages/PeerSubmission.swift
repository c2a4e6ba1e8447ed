/// A submission of one of our devices on its way to a peer.
package struct PeerSubmission: Sendable, Equatable {
  package let relay: RelayName
  package let source: DeviceAddress
  /// Has a timestamp when it is held: the peer tells repeated hand-overs by it.
  package let submission: Submission
  package init(relay: RelayName, source: DeviceAddress, submission: Submission) {
    self.relay = relay
    self.source = source
    self.submission = submission
  }
  /// The bytes that the sender wrote.
  package var byteCount: Int {
    submission.messages.reduce(0) { $0 + $1.byteCount }
  }
}
