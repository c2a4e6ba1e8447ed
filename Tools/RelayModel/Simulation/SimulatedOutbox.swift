import Federation
import RelayCore

/// What the store has of one peer's outbox.
struct SimulatedOutbox {
  private struct Row {
    var held: HeldMessage
    /// The simulation's own name of the message.
    let id: Int
    let conversation: Int
  }

  /// By sequence, counted from 1; nil is gone.
  private var rows: [Row?] = []
  /// Rows before it are gone.
  private var first = 0
  private var held: Set<Int> = []
  private var conversations: [Int: Int] = [:]
  /// What waits.
  private(set) var count = 0

  func holds(message id: Int) -> Bool { held.contains(id) }
  func holds(conversation: Int) -> Bool { conversations[conversation] != nil }
  /// Of all that waits, ascending by sequence.
  var messages: [Int] { rows[first...].compactMap { $0?.id } }
  /// nil when nothing waits.
  var oldest: HeldMessage? { first < rows.count ? rows[first]?.held : nil }

  mutating func hold(_ message: PeerSubmission, id: Int, conversation: Int, now: Timestamp) {
    let row = HeldMessage(
      sequence: Int64(rows.count + 1), message: message, accepted: now, attempts: 0, notBefore: now)
    rows.append(Row(held: row, id: id, conversation: conversation))
    held.insert(id)
    conversations[conversation, default: 0] += 1
    count += 1
  }

  /// - Parameter sequence: of a message that was held once.
  func message(of sequence: Int64) -> Int { rows[Int(sequence) - 1]?.id ?? 0 }

  mutating func remove(_ sequence: Int64) {
    let index = Int(sequence) - 1
    guard let row = rows[index] else { return }
    rows[index] = nil
    held.remove(row.id)
    let left = (conversations[row.conversation] ?? 1) - 1
    conversations[row.conversation] = left > 0 ? left : nil
    count -= 1
    while first < rows.count, rows[first] == nil { first += 1 }
  }

  /// At most `limit`, ascending, all above `sequence`.
  func page(after sequence: Int64, limit: Int) -> [HeldMessage] {
    var page: [HeldMessage] = []
    var index = max(first, Int(sequence))
    while index < rows.count, page.count < limit {
      if let row = rows[index] { page.append(row.held) }
      index += 1
    }
    return page
  }

  /// Counts an attempt.
  mutating func putOff(_ sequence: Int64, until notBefore: Timestamp) {
    let index = Int(sequence) - 1
    guard let held = rows[index]?.held else { return }
    rows[index]?.held = held.with(attempts: held.attempts + 1, notBefore: notBefore)
  }

  /// All that waits is due.
  mutating func makeDue(at now: Timestamp) {
    for index in first..<rows.count {
      guard let held = rows[index]?.held, held.notBefore > now else { continue }
      rows[index]?.held = held.with(attempts: held.attempts, notBefore: now)
    }
  }

  func isAnythingDue(at now: Timestamp) -> Bool {
    rows[first...].contains { row in row.map { OutboxPolicy.isDue($0.held.notBefore, at: now) } ?? false }
  }
}

extension HeldMessage {
  fileprivate func with(attempts: Int, notBefore: Timestamp) -> HeldMessage {
    HeldMessage(sequence: sequence, message: message, accepted: accepted, attempts: attempts, notBefore: notBefore)
  }
}
