package import RelayCore

/// Tells connections of changes in their mailboxes, behind the commit. The hub implements it, in a folder above this
/// one.
package protocol MailboxWatch: AppendWatch {
  /// The device itself removed the message at `sequence` over HTTP: its connection no longer holds it.
  func removed(_ sequence: Int64, from mailbox: DeviceAddress)
}
