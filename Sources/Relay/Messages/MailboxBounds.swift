import RelayCore

/// What one mailbox takes at most.
package struct MailboxBounds: Sendable, Equatable {
  let mailboxMax: Int
  /// Of one account.
  let senderMax: Int
  /// Of one peer, whatever accounts it speaks for.
  let peerMax: Int
  /// Of all peers together. What is left above it is for senders of this relay alone.
  let peersMax: Int

  /// - Parameter peerPercent: of the mailbox, what one peer may take, 1 to 100. All peers together take half of the rest
  ///   besides: with 50 one peer fills a half, all of them three quarters.
  package init(mailboxMax: Int, senderMax: Int, peerPercent: Int) {
    self.mailboxMax = mailboxMax
    self.senderMax = senderMax
    peerMax = max(1, mailboxMax * peerPercent / 100)
    peersMax = max(1, mailboxMax * (100 + peerPercent) / 200)
  }
}

/// What one sender has in one mailbox. The credit of a number belongs to the relay that speaks for it; the store counts by
/// number alone, so all who speak for one share its limit.
struct MailboxLane: Hashable {
  let mailbox: DeviceAddress
  let sender: AccountNumber
  /// nil for ours.
  let relay: RelayName?
  /// The peer whose share it takes; nil for none. The word that a message is undeliverable bears a peer's name, but is our
  /// own to our own sender.
  let peer: RelayName?

  init(_ envelope: Envelope) {
    mailbox = envelope.destination
    sender = envelope.source.account
    relay = envelope.relay
    peer = envelope.type == .undeliverable ? nil : envelope.relay
  }
}
