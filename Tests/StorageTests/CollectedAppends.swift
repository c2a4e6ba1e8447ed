import RelayCore
import Synchronization

/// Watches some mailboxes, and collects what it is told of appends.
final class CollectedAppends: AppendWatch {
  private let mailboxes: Set<DeviceAddress>
  private let told = Mutex<[[AppendedEnvelope]]>([])

  init(_ mailboxes: Set<DeviceAddress>) { self.mailboxes = mailboxes }

  /// One list for each append.
  var calls: [[AppendedEnvelope]] { told.withLock { $0 } }
  /// Of the last append.
  var last: [AppendedEnvelope] { calls.last ?? [] }

  func watches(_ mailbox: DeviceAddress) -> Bool { mailboxes.contains(mailbox) }
  func stored(_ messages: [AppendedEnvelope]) { told.withLock { $0.append(messages) } }
}
