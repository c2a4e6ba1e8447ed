package import RelayCore
import Synchronization

/// How many messages may wait in one mailbox, how many of them from one sender (reference 3.10, Part 6 no. 13), from
/// one peer, and from all peers together.
///
/// The order of arrival decides: an accepted message is never given up for a newer one; the newest is refused. A
/// message that was accepted already and is repeated into a full mailbox is refused like any other. To tell them
/// apart would cost every refusal a search. A later repetition finds room and is stored once.
///
/// A peer can invent as many senders as it likes. So both one peer's waiting messages and those of all peers are
/// bounded. No peer takes the room of another, and no peers together take the room of our own senders.
///
/// Counting a mailbox for every message would cost more than storing it. So each process counts only when it has used
/// up its credit, which a count renews: an eighth of the room that is left, at most 256. Before the first count a
/// mailbox, a sender and a peer have a sixteenth of their limit, at most 64. So one process exceeds a limit `L` by at
/// most `min(64, L / 16)`. `P` processes exceed it by at most `P * (min(256, L / 8) + min(64, L / 16))`, not counting
/// messages that others are just storing. A credit that was not used while some 50,000 others were begins anew.
package final class MailboxQuota: Sendable {
  private let store: any MessageStore
  private let bounds: MailboxBounds
  private let state: Mutex<MailboxCredits>

  /// - Parameter capacity: mailboxes, senders and peers of mailboxes, remembered at most of each.
  package init(store: any MessageStore, bounds: MailboxBounds, capacity: Int = 100_000) {
    self.store = store
    self.bounds = bounds
    state = Mutex(MailboxCredits(bounds, capacity: capacity))
  }

  /// Takes room for each of `envelopes`, or for none. `release` follows when they are stored or are not going to be.
  /// - Throws: `.mailboxFull`, `.senderShareFull`, `.peerShareFull`, `.unavailable`.
  func reserve(_ envelopes: some Collection<Envelope>) async throws(Problem) {
    var reserved = 0
    do throws(Problem) {
      for envelope in envelopes {
        try await reserve(MailboxLane(envelope))
        reserved += 1
      }
    } catch {
      release(envelopes.prefix(reserved))
      throw error
    }
  }

  /// Releases the room reserved for `envelopes`: they can be counted from now on, or will never be.
  func release(_ envelopes: some Collection<Envelope>) {
    state.withLock { state in
      for envelope in envelopes { state.release(MailboxLane(envelope)) }
    }
  }

  private func reserve(_ lane: MailboxLane) async throws(Problem) {
    switch state.withLock({ $0.take(lane, at: .now) }) {
    case .taken: return
    case .full(let kind): throw Self.refusal(kind)
    case .unknown: break
    }
    let before = state.withLock { $0.ended(lane) }
    let usage: MailboxUsage
    do throws(StoreError) {
      usage = try await store.usage(
        of: lane.mailbox, by: lane.sender, from: lane.peer, countingTo: bounds.mailboxMax)
    } catch {
      throw Problem(error)
    }
    if case .full(let kind) = state.withLock({ $0.take(lane, after: usage, before, at: .now) }) {
      throw Self.refusal(kind)
    }
  }

  /// Clients come for their messages within minutes, or not for long.
  private static func refusal(_ kind: Problem.Kind) -> Problem { Problem(kind, retryAfter: .seconds(60)) }
}
