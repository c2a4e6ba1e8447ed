import RelayCore

/// One walk through what waits for a peer, oldest first: events in, the messages to send next out.
///
/// A destination's messages keep their order: behind one that is not due or has failed, none is sent in this walk, and
/// of those that are sent at once no two have the same destination, since the peer may take the second without the
/// first.
struct OutboxPass {
  /// Of the page that was read last, ascending by sequence.
  private var waiting: [HeldMessage] = []
  private var blocked: Set<AccountNumber> = []
  /// Hand-overs in a row that brought nothing.
  private var failures = 0
  /// The sequence of the last message that was read; 0 before the first.
  private(set) var last: Int64 = 0

  /// One batch between relays of this kind holds as many.
  static let waveMax = 128
  /// Leaves the batches of others room.
  static let waveBytesMax = WireLimits.batchBytesMax / 2
  private static let failuresMax = 32
  private static let blockedMax = 100_000

  /// Whether the walk ends here: the peer serves none of what it is asked, or more destinations wait than are worth
  /// remembering.
  var isHopeless: Bool { failures >= Self.failuresMax || blocked.count >= Self.blockedMax }

  /// - Parameter page: what follows `last`, ascending.
  mutating func pageRead(_ page: [HeldMessage]) {
    waiting = page
    last = page.last?.sequence ?? last
  }

  /// - Returns: what to send at once, ascending; empty when the page has nothing more to send.
  mutating func nextWave(at now: Timestamp) -> [HeldMessage] {
    var wave: [HeldMessage] = []
    var later: [HeldMessage] = []
    var destinations: Set<AccountNumber> = []
    var bytes = 0
    var isFull = false
    for held in waiting {
      let destination = held.message.submission.destination
      if blocked.contains(destination) { continue }
      if held.notBefore > now {
        blocked.insert(destination)
        continue
      }
      isFull =
        isFull || wave.count == Self.waveMax
        || (!wave.isEmpty && bytes + held.message.byteCount > Self.waveBytesMax)
      if isFull || !destinations.insert(destination).inserted {
        later.append(held)
      } else {
        wave.append(held)
        bytes += held.message.byteCount
      }
    }
    waiting = later
    return wave
  }

  /// A message is gone: handed over, or given up.
  mutating func settled() { failures = 0 }

  /// `held` stays for later, and with it what follows for its destination.
  mutating func putOff(_ held: HeldMessage) {
    blocked.insert(held.message.submission.destination)
    failures += 1
  }
}
