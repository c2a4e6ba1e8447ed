extension OutboxSimulation {
  struct Settings: Sendable, Equatable {
    var seed: UInt64 = 1
    var processes = 2
    var messagesPerSecond = 50.0
    /// Pairs of a sender and a recipient.
    var conversations = 200
    /// When the peer goes, and for how long.
    var awayAfter = 60.0
    var awaySeconds = 600.0
    /// Whether it takes connections and is silent; else nobody takes them.
    var isSilent = false
    /// Messages that the peer takes in a second.
    var peerPerSecond = 2000.0
    /// To the peer and back.
    var roundTripMillis = 20.0
    /// `federation.outbox.messages-max`.
    var messagesMax = 100_000
    /// `federation.outbox.hours`, in seconds.
    var ageSeconds = 72 * 3600.0
    /// How long the simulation goes on after the peer is back.
    var afterSeconds = 900.0

    /// - Throws: `ModelFailure` that names the value.
    func check() throws {
      guard (1...1000).contains(processes) else { throw ModelFailure("--processes goes from 1 to 1000") }
      guard messagesPerSecond > 0, messagesPerSecond <= 100_000 else {
        throw ModelFailure("--messages-per-second goes from 0 to 100000")
      }
      guard (1...1_000_000).contains(conversations) else {
        throw ModelFailure("--conversations goes from 1 to 1000000")
      }
      guard awaySeconds > 0, awaySeconds <= 1e6, (0...1e6).contains(awayAfter), (0...1e6).contains(afterSeconds) else {
        throw ModelFailure("the times go from 0 to 1000000 s")
      }
      guard peerPerSecond > 0, roundTripMillis >= 0, roundTripMillis <= 2000 else {
        throw ModelFailure("--peer-per-second is above 0, --round-trip-millis from 0 to 2000")
      }
      guard messagesPerSecond * (awayAfter + awaySeconds + afterSeconds) <= 5_000_000 else {
        throw ModelFailure("that is more than 5 million messages: take a lower rate or a shorter time")
      }
      guard messagesMax > 0, ageSeconds > 0 else { throw ModelFailure("the bounds of the outbox are above 0") }
    }
  }

  struct Outcome: Sendable, Equatable {
    var submitted = 0
    /// By the peer, each once.
    var delivered = 0
    /// Delivered before a message of the same conversation that was submitted earlier.
    var overtaken = 0
    /// Taken by the peer a second time: it recognises them.
    var repeated = 0
    /// The outbox had no room: the sender was told so.
    var refused = 0
    /// Too old: the sender was told so.
    var givenUp = 0
    var waiting = 0
    var held = 0
    var failedRequests = 0
    var probes = 0
    /// Of each process, in seconds from the moment at which the peer went.
    var opened: [Double] = []
    /// In seconds from the moment at which the peer was back.
    var closed: [Double] = []
    /// The outbox was empty then, in seconds from the moment at which the peer was back; nil: it was not.
    var emptyAfter: Double?
    var waits = Waits()
    /// What waits, every second.
    var samples: [Sample] = []

    /// Nothing is lost: each message is somewhere.
    var accounted: Int { delivered + refused + givenUp + waiting }
  }
}
