/// A message that was accepted for a device was delivered to it, or waits for it at the end.
///
/// An attempt without an answer may have been accepted or not: nothing is owed for it. A device that was taken out of
/// its account, or may have been, is owed nothing. A message is owed to no device after its sender was told that it
/// is undeliverable.
package struct NothingLost: Rule {
  package let name = "accepted is delivered or waits"
  package private(set) var violations = Violations()

  private struct Entry {
    var missing: [DeviceIndex]
    var isAccepted = false
  }

  /// Messages that are not accepted yet, or not everywhere.
  private var open: [MessageNumber: Entry] = [:]
  private var removed: Set<DeviceIndex> = []

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      switch invocation.call {
      case .submit(let message, let recipients, _):
        if open[message] == nil { open[message] = Entry(missing: recipients) }
      case .remove(let device): removed.insert(device)
      default: break
      }
    case .answered(let invocation, .done):
      guard case .submit(let message, _, _) = invocation.call else { return }
      open[message]?.isAccepted = true
      settle(message)
    case .saw(.delivered(let message, _, let device, _, _)), .saw(.waiting(let message, let device)):
      open[message]?.missing.removeAll { $0 == device }
      settle(message)
    case .saw(.undeliverable(let message, _)): open[message] = nil
    default: break
    }
  }

  package mutating func finish(at end: Moment, _ trouble: Trouble) {
    for (message, entry) in open.sorted(by: { $0.key < $1.key }) where entry.isAccepted {
      for device in entry.missing where !removed.contains(device) {
        violations.add("\(Copy(message, device)) was accepted, was never delivered, and does not wait")
      }
    }
  }

  private mutating func settle(_ message: MessageNumber) {
    if let entry = open[message], entry.isAccepted, entry.missing.isEmpty { open[message] = nil }
  }
}
