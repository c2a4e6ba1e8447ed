/// A sender is told of a message's arrival only when its recipient acknowledged it, and is told.
///
/// Receipts that a process held in memory when it was ended may be lost. So a message is excused if it was
/// acknowledged before the loss, and its receipt was not known to be safe. The relay itself must have counted all
/// other missing receipts as dropped. A message that is delivered again had not been removed: its receipt is due at
/// the next acknowledgement.
package struct ReceiptsTrue: Rule {
  package let name = "receipts neither forged nor lost"
  package private(set) var violations = Violations()

  private struct Due {
    /// `Trouble.losses` when it was acknowledged.
    let losses: Int
    let since: Moment
  }

  private var due: [Copy: Due] = [:]
  /// No process was ended before it was stored.
  private var firm: Set<Copy> = []
  private var excused: Set<Copy> = []
  private var told: Set<Copy> = []
  private var removed: Set<DeviceIndex> = []
  private var dropped: [Place: Int] = [:]
  private var nextSweep = Moment.begin
  /// A receipt that has not been stored this long after the last fault was not going to be.
  private static let settling = Duration.seconds(10)
  private static let pause = Duration.seconds(1)

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    sweep(now, trouble)
    switch step {
    case .invoked(let invocation):
      if case .remove(let device) = invocation.call { removed.insert(device) }
    case .saw(.acknowledging(let message, let device)):
      let copy = Copy(message, device)
      guard !told.contains(copy) else { return }
      due[copy] = Due(losses: trouble.losses, since: now)
    case .saw(.delivered(let message, _, let device, _, _)), .saw(.waiting(let message, let device)):
      let copy = Copy(message, device)
      // It was still in the mailbox, but acknowledged once: a receipt for it would be true.
      if due.removeValue(forKey: copy) != nil || firm.remove(copy) != nil { excused.insert(copy) }
    case .saw(.receipt(let message, let device, _)): tell(Copy(message, device), now)
    case .saw(.receiptsDropped(let count, let place)): dropped[place, default: 0] += count
    default: break
    }
  }

  package mutating func finish(at end: Moment, _ trouble: Trouble) {
    // The youngest may still be under way.
    for (copy, entry) in due where entry.losses == trouble.losses && end - entry.since > Self.settling {
      firm.insert(copy)
    }
    let missing = firm.filter { !removed.contains($0.device) }
    let counted = dropped.values.reduce(0, +)
    guard missing.count > counted else { return }
    for copy in missing.sorted(by: { $0.message < $1.message }) {
      violations.add(
        "nobody was told that \(copy) was acknowledged: \(missing.count) are missing, and the relay counted \(counted)")
    }
  }

  private mutating func tell(_ copy: Copy, _ now: Moment) {
    let isKnown = due.removeValue(forKey: copy) != nil || firm.remove(copy) != nil || excused.remove(copy) != nil
    guard !isKnown else {
      told.insert(copy)
      return
    }
    if !told.contains(copy) { violations.add("\(now): a receipt of \(copy), which was never acknowledged") }
  }

  /// Sorts what is long overdue into what may have been lost with a process and what may not.
  private mutating func sweep(_ now: Moment, _ trouble: Trouble) {
    guard now >= nextSweep else { return }
    nextSweep = now + Self.pause
    guard trouble.isQuiet(for: Self.settling, at: now) else { return }
    for (copy, entry) in due where now - entry.since > Self.settling {
      due[copy] = nil
      if entry.losses == trouble.losses { firm.insert(copy) } else { excused.insert(copy) }
    }
  }
}
