import RelayCore

/// The tokens that one peer is to be asked for: what gathers while a request is under way travels together in the
/// next.
///
/// No I/O: `PeerAsker` sends what `begin` returns, and says so when it has `ended`. Batches have serial numbers, from
/// 1, in the order in which they travel.
struct LookupQueue: Sendable {
  /// The batch that is under way comes first.
  private var batches: [[ContactToken]] = []
  private var serials: [ContactToken: Int] = [:]
  private var isUnderWay = false
  /// The serial of the last batch that has ended, answered or not.
  private(set) var ended = 0

  private let batchMax: Int
  private let waitingMax: Int

  /// - Parameters:
  ///   - batchMax: tokens of one request.
  ///   - waitingMax: tokens that wait or are under way.
  init(batchMax: Int = WireLimits.contactsPerPage, waitingMax: Int = 100_000) {
    self.batchMax = batchMax
    self.waitingMax = waitingMax
  }

  /// Adds those of `tokens` that do not wait already, as far as there is room.
  /// - Returns: the serial of the last batch that brings one of them; nil when none does.
  mutating func add(_ tokens: some Sequence<ContactToken>) -> Int? {
    var last: Int?
    for token in tokens {
      guard let serial = serials[token] ?? append(token) else { continue }
      last = max(last ?? serial, serial)
    }
    return last
  }

  private mutating func append(_ token: ContactToken) -> Int? {
    guard serials.count < waitingMax else { return nil }
    let open = isUnderWay ? 1 : 0
    if batches.count <= open || batches[batches.count - 1].count >= batchMax { batches.append([]) }
    batches[batches.count - 1].append(token)
    let serial = ended + batches.count
    serials[token] = serial
    return serial
  }

  /// - Returns: the batch that is under way from now on; nil when nothing waits.
  mutating func begin() -> [ContactToken]? {
    isUnderWay = !batches.isEmpty
    return batches.first
  }

  /// The batch under way is over.
  mutating func batchEnded() { drop(1) }

  /// All are over: there is no use in asking for what waits.
  mutating func allEnded() { drop(batches.count) }

  private mutating func drop(_ count: Int) {
    for token in batches.prefix(count).joined() { serials[token] = nil }
    batches.removeFirst(min(count, batches.count))
    ended += count
    isUnderWay = false
  }
}
