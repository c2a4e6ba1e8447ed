package import RelayCore

/// Those who are connected, told what happens to their mailboxes, behind the commit. Implemented by the hub: a folder of
/// its own above this one.
package protocol MailboxWatch: Sendable {
  /// `envelopes` were stored. Returns at once.
  func stored(_ envelopes: [Envelope])
  /// The device itself has removed what stood at `sequence` of its mailbox, over HTTP: its connection holds it no longer.
  func removed(_ sequence: Int64, from mailbox: DeviceAddress)
}
