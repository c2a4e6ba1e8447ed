package import RelayCore
import Synchronization

/// How many messages may wait in one mailbox, and how many of them from one sender (reference 3.10, Part 6 no. 13).
///
/// By arrival: what was accepted is never given up for something newer; the newest is refused. A message that was
/// accepted already and is repeated into a full mailbox is refused like any other: to tell them apart would cost every
/// refusal a search, and a later repetition finds room and is stored once.
///
/// Counting a mailbox for every message would cost more than storing it. So each process counts only when it has used
/// up its credit, which a count renews: an eighth of the room that is left, at most 256. Before the first count a
/// mailbox and a sender have a sixteenth of their limit, at most 64. So one process exceeds a limit `L` by no more than
/// `min(64, L / 16)`, and `P` processes by no more than `P * (min(256, L / 8) + min(64, L / 16))`, not counting what
/// others are just storing. What was not used while some 50,000 others were begins anew.
package final class MailboxQuota: Sendable {
  private let store: any MessageStore
  private let mailboxMax: Int
  private let senderMax: Int
  private let state: Mutex<State>

  /// - Parameter capacity: mailboxes, and senders of mailboxes, remembered at most.
  package init(store: any MessageStore, mailboxMax: Int, senderMax: Int, capacity: Int = 100_000) {
    self.store = store
    self.mailboxMax = mailboxMax
    self.senderMax = senderMax
    state = Mutex(State(capacity: capacity))
  }

  /// Takes room for each of `envelopes`, or for none. `release` follows when they are stored or are not going to be.
  /// - Throws: `.mailboxFull`, `.unavailable`.
  func reserve(_ envelopes: some Collection<Envelope>) async throws(Problem) {
    var reserved = 0
    do throws(Problem) {
      for envelope in envelopes {
        try await reserve(Lane(envelope))
        reserved += 1
      }
    } catch {
      release(envelopes.prefix(reserved))
      throw error
    }
  }

  /// What was reserved can be counted from now on, or will never be.
  func release(_ envelopes: some Collection<Envelope>) {
    state.withLock { state in
      for envelope in envelopes { state.release(Lane(envelope)) }
    }
  }

  private func reserve(_ lane: Lane) async throws(Problem) {
    let limits = Limits(mailbox: mailboxMax, sender: senderMax)
    switch state.withLock({ $0.take(lane, within: limits, at: .now) }) {
    case .taken: return
    case .full: throw Self.full
    case .unknown: break
    }
    let before = state.withLock { $0.ended(lane, limits) }
    let usage: MailboxUsage
    do throws(StoreError) {
      usage = try await store.usage(of: lane.mailbox, by: lane.sender, countingTo: mailboxMax)
    } catch {
      throw Problem(error)
    }
    guard state.withLock({ $0.take(lane, after: Count(usage: usage, before: before), within: limits, at: .now) }) else {
      throw Self.full
    }
  }

  /// Clients come for their messages within minutes, or not for long.
  private static let full = Problem(.mailboxFull, retryAfter: .seconds(60))
}

// MARK: - Credit

extension MailboxQuota {
  /// What one sender has in one mailbox. The credit of a number belongs to the relay that speaks for it; the store
  /// counts by number alone, so all who speak for one share its limit.
  fileprivate struct Lane: Hashable {
    let mailbox: DeviceAddress
    let sender: AccountNumber
    /// nil for ours.
    let relay: RelayName?

    init(_ envelope: Envelope) {
      mailbox = envelope.destination
      sender = envelope.source.account
      relay = envelope.relay
    }
  }

  fileprivate struct Limits {
    let mailbox: Int
    let sender: Int
  }

  fileprivate struct Ended {
    let mailbox: Int
    let sender: Int
  }

  /// What the store says, and what had ended when it was asked.
  fileprivate struct Count {
    let usage: MailboxUsage
    let before: Ended
  }

  fileprivate enum Room { case taken, full, unknown }

  /// The room of one mailbox, or of one sender in it, as this process knows it.
  fileprivate struct Credit {
    /// Messages that may be taken in before the next count.
    private(set) var left: Int
    /// Taken in and perhaps not stored yet: a count does not see them.
    private var underWay = 0
    /// Ended since the beginning, stored or not: a count that began before may not have seen them either.
    private(set) var ended = 0
    private var refusedUntil: ContinuousClock.Instant?

    init(limit: Int) { left = min(64, limit / 16) }

    func isRefused(at now: ContinuousClock.Instant) -> Bool { refusedUntil.map { now < $0 } ?? false }

    mutating func take() {
      left -= 1
      underWay += 1
    }
    mutating func release() {
      underWay = max(0, underWay - 1)
      ended += 1
    }

    /// What is under way, or has ended since `endedBefore`, when the count began, may have been counted as well: near the
    /// limit a message can be refused a little early.
    /// - Returns: false when there is no room; that the mailbox is full is taken for granted for a second.
    mutating func renew(limit: Int, counted: Int, endedBefore: Int, at now: ContinuousClock.Instant) -> Bool {
      let room = limit - counted - underWay - max(0, ended - endedBefore)
      left = room > 0 ? max(1, min(256, room / 8)) : 0
      refusedUntil = counted < limit ? nil : now + .seconds(1)
      return room > 0
    }
  }

  fileprivate struct State {
    private var mailboxes: TwoGenerations<DeviceAddress, Credit>
    private var lanes: TwoGenerations<Lane, Credit>

    init(capacity: Int) {
      mailboxes = TwoGenerations(capacity: capacity)
      lanes = TwoGenerations(capacity: capacity)
    }

    mutating func take(_ lane: Lane, within limits: Limits, at now: ContinuousClock.Instant) -> Room {
      with(lane, limits) { mailbox, sender in
        if mailbox.isRefused(at: now) || sender.isRefused(at: now) { return .full }
        guard mailbox.left > 0, sender.left > 0 else { return .unknown }
        mailbox.take()
        sender.take()
        return .taken
      }
    }

    /// - Returns: false when there is no room.
    mutating func take(
      _ lane: Lane, after count: Count, within limits: Limits, at now: ContinuousClock.Instant
    ) -> Bool {
      with(lane, limits) { mailbox, sender in
        let mailboxHasRoom = mailbox.renew(
          limit: limits.mailbox, counted: count.usage.total, endedBefore: count.before.mailbox, at: now)
        let senderHasRoom = sender.renew(
          limit: limits.sender, counted: count.usage.bySource, endedBefore: count.before.sender, at: now)
        guard mailboxHasRoom, senderHasRoom else { return false }
        mailbox.take()
        sender.take()
        return true
      }
    }

    /// What a count that begins now may not see: how much had ended by now.
    mutating func ended(_ lane: Lane, _ limits: Limits) -> Ended {
      with(lane, limits) { mailbox, sender in Ended(mailbox: mailbox.ended, sender: sender.ended) }
    }

    mutating func release(_ lane: Lane) {
      mailboxes.updateExisting(lane.mailbox) { $0.release() }
      lanes.updateExisting(lane) { $0.release() }
    }

    private mutating func with<Result>(
      _ lane: Lane, _ limits: Limits, _ body: (inout Credit, inout Credit) -> Result
    ) -> Result {
      mailboxes.update(lane.mailbox, orInsert: Credit(limit: limits.mailbox)) { mailbox in
        lanes.update(lane, orInsert: Credit(limit: limits.sender)) { sender in body(&mailbox, &sender) }
      }
    }
  }
}
