import DequeModule
import RelayCore

/// Which hand-overs to one peer travel when: one alone while nothing is under way, else together once that is answered.
///
/// One batch at a time, so that what a sender hands over later never overtakes. Made of tickets; the shell keeps what
/// they stand for.
struct HandOverQueue: Sendable {
  typealias Ticket = UInt64

  struct Bounds: Sendable {
    var waitingMax: Int
    var waitingBytesMax: Int
    var perBatchMax = WireLimits.handOversPerBatchMax
    var batchBytesMax = WireLimits.batchBytesMax
  }

  enum Action: Sendable, Equatable {
    /// Nothing to do until the batch that is under way is answered, or nothing at all.
    case wait
    /// Never empty.
    case send([Ticket])
    /// As many wait as may.
    case refuse
  }

  private struct Waiting {
    let ticket: Ticket
    let bytes: Int
  }

  private let bounds: Bounds
  private var waiting: Deque<Waiting> = []
  private var waitingBytes = 0
  private var isUnderWay = false

  var waitingCount: Int { waiting.count }

  init(bounds: Bounds) { self.bounds = bounds }

  /// - Parameter bytes: of the hand-over in a batch.
  mutating func submitted(_ ticket: Ticket, bytes: Int) -> Action {
    guard isUnderWay else {
      isUnderWay = true
      return .send([ticket])
    }
    guard waiting.count < bounds.waitingMax, waitingBytes + bytes <= bounds.waitingBytesMax else { return .refuse }
    waiting.append(Waiting(ticket: ticket, bytes: bytes))
    waitingBytes += bytes
    return .wait
  }

  /// What was under way has been answered, or has failed.
  mutating func answered() -> Action {
    var (batch, bytes): ([Ticket], Int) = ([], 0)
    while let first = waiting.first, batch.count < bounds.perBatchMax {
      guard batch.isEmpty || bytes + first.bytes <= bounds.batchBytesMax else { break }
      waiting.removeFirst()
      waitingBytes -= first.bytes
      bytes += first.bytes
      batch.append(first.ticket)
    }
    isUnderWay = !batch.isEmpty
    return batch.isEmpty ? .wait : .send(batch)
  }

  /// Nobody waits for `ticket` any more.
  /// - Returns: whether it will not travel; false when it is under way.
  mutating func abandoned(_ ticket: Ticket) -> Bool {
    guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return false }
    waitingBytes -= waiting.remove(at: index).bytes
    return true
  }
}
