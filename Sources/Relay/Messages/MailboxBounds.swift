import RelayCore

/// The limits of one mailbox.
package struct MailboxBounds: Sendable, Equatable {
  let mailboxMax: Int
  /// Messages of one account.
  let senderMax: Int
  /// Messages of one peer, whatever accounts it speaks for.
  let peerMax: Int
  /// Messages of all peers together. The room above is for senders of this relay alone.
  let peersMax: Int

  /// - Parameter peerPercent: of the mailbox, what one peer may take, 1 to 100. All peers together take half of the
  ///   rest besides: with 50 one peer fills a half, all of them three quarters.
  package init(mailboxMax: Int, senderMax: Int, peerPercent: Int) {
    self.mailboxMax = mailboxMax
    self.senderMax = senderMax
    peerMax = max(1, mailboxMax * peerPercent / 100)
    peersMax = max(1, mailboxMax * (100 + peerPercent) / 200)
  }
}

/// One sender's part of one mailbox. The credit of a number belongs to the relay that speaks for it. The store counts
/// by number alone, so all relays that speak for a number share its limit.
struct MailboxLane: Hashable {
  let mailbox: DeviceAddress
  let sender: AccountNumber
  /// nil for ours.
  let relay: RelayName?
  /// The peer whose share it takes; nil for none. The word that a message is undeliverable bears a peer's name, but is
  /// our own to our own sender.
  let peer: RelayName?

  init(_ envelope: Envelope) {
    mailbox = envelope.destination
    sender = envelope.source.account
    relay = envelope.relay
    peer = envelope.type == .undeliverable ? nil : envelope.relay
  }
}
