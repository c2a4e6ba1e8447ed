package import RelayCore

/// One walk through the messages that wait for a peer, oldest first: events in, the messages to send next out.
///
/// A destination's messages keep their order. If the peer takes batches in order, several messages for one
/// destination travel together. Otherwise only one does, because the peer may take the second without the first. If a
/// message is not due or was put off, later ones of the same sender for that destination wait for the next walk.
/// Messages of others for that destination do not wait.
package struct OutboxPass {
  /// The messages left of the page that was read last, ascending by sequence.
  private var waiting: [HeldMessage] = []
  private var blocked: Set<AccountPair> = []
  /// Hand-overs in a row that brought nothing.
  private var failures = 0
  /// The sequence of the last message that was read; 0 before the first.
  package private(set) var last: Int64 = 0

  /// Four batches between relays of this kind. A wave takes as long as its commits here and there, and as the processes
  /// that hold new messages keep the peer's lock, however many there are in it. With small waves, new messages for the
  /// same destinations join the queue faster than it moves.
  package static let waveMax = 4 * WireLimits.handOversPerBatchMax
  /// Leaves the batches of others room.
  static let waveBytesMax = WireLimits.batchBytesMax / 2
  /// Messages for one destination at once. The peer stores them one after the other, and has a request's time for all
  /// of them.
  static let inOrderMax = 32
  private static let failuresMax = 32
  private static let blockedMax = 100_000

  /// Whether the walk ends here: the peer serves none of what it is asked, or more pairs of sender and destination
  /// wait than are worth remembering.
  package var isHopeless: Bool { failures >= Self.failuresMax || blocked.count >= Self.blockedMax }

  package init() {}

  /// - Parameter page: what follows `last`, ascending.
  package mutating func pageRead(_ page: [HeldMessage]) {
    waiting = page
    last = page.last?.sequence ?? last
  }

  /// - Parameter isInOrder: whether the peer takes no later message of a sender for a destination before an earlier
  ///   one.
  /// - Returns: what to send at once, ascending; empty when the page has nothing more to send.
  package mutating func nextWave(at now: Timestamp, isInOrder: Bool = false) -> [HeldMessage] {
    let perDestinationMax = isInOrder ? Self.inOrderMax : 1
    var wave: [HeldMessage] = []
    var later: [HeldMessage] = []
    var destinations: [AccountNumber: Int] = [:]
    var bytes = 0
    var isFull = false
    for held in waiting {
      let destination = held.message.submission.destination
      let pair = held.pair
      if blocked.contains(pair) { continue }
      if !OutboxPolicy.isDue(held.notBefore, at: now) {
        blocked.insert(pair)
        continue
      }
      isFull =
        isFull || wave.count == Self.waveMax
        || (!wave.isEmpty && bytes + held.message.byteCount > Self.waveBytesMax)
      let count = destinations[destination, default: 0]
      if isFull || count == perDestinationMax {
        later.append(held)
      } else {
        wave.append(held)
        destinations[destination] = count + 1
        bytes += held.message.byteCount
      }
    }
    waiting = later
    return wave
  }

  /// Splits a wave into as many batches as it needs, of about one size. Messages for one destination stay together, in
  /// their order.
  static func batches(of wave: [HeldMessage]) -> [[HeldMessage]] {
    let max = WireLimits.handOversPerBatchMax
    var batches = Array(repeating: [HeldMessage](), count: (wave.count + max - 1) / max)
    var places: [AccountNumber: Int] = [:]
    for held in wave {
      let destination = held.message.submission.destination
      let smallest = batches.indices.min { batches[$0].count < batches[$1].count } ?? 0
      let place = places[destination] ?? smallest
      places[destination] = place
      batches[place].append(held)
    }
    return batches
  }

  /// A message is gone: handed over, or given up.
  package mutating func settled() { failures = 0 }

  /// `held` stays for later, and with it what follows of its sender for its destination.
  /// - Returns: false when it was only behind one that had been put off.
  @discardableResult
  package mutating func putOff(_ held: HeldMessage) -> Bool {
    guard blocked.insert(held.pair).inserted else { return false }
    failures += 1
    return true
  }

  /// As `putOff`, and the peer is not at fault.
  package mutating func kept(_ held: HeldMessage) { blocked.insert(held.pair) }
}

extension HeldMessage {
  fileprivate var pair: AccountPair {
    AccountPair(source: message.source.account, destination: message.submission.destination)
  }
}
