import RelayCore
import RelayWork

/// The room of mailboxes, of senders and of peers in them, as this process knows it (`MailboxQuota`).
struct MailboxCredits {
  enum Room {
    case taken
    /// - Parameter kind: what says which bound is reached.
    case full(_ kind: Problem.Kind)
    case unknown
  }

  /// How much had ended when a count began: what ended since it may not have seen.
  struct Ended {
    let mailbox: Int
    let sender: Int
    /// Messages of all peers, and of the one; 0 for our own senders.
    let peers: Int
    let peer: Int
  }

  /// A part of one mailbox: of one peer, or of all of them together (nil).
  private struct Share: Hashable {
    let mailbox: DeviceAddress
    let peer: RelayName?
  }

  private let bounds: MailboxBounds
  private var mailboxes: TwoGenerations<DeviceAddress, Credit>
  private var lanes: TwoGenerations<MailboxLane, Credit>
  private var shares: TwoGenerations<Share, Credit>

  init(_ bounds: MailboxBounds, capacity: Int) {
    self.bounds = bounds
    mailboxes = TwoGenerations(capacity: capacity)
    lanes = TwoGenerations(capacity: capacity)
    shares = TwoGenerations(capacity: capacity)
  }

  /// Takes room where all that is needed is known to be there.
  mutating func take(_ lane: MailboxLane, at now: ContinuousClock.Instant) -> Room {
    if lane.peer != nil {
      let share = withShares(of: lane) { peers, peer -> Room in
        if peers.isRefused(at: now) || peer.isRefused(at: now) { return .full(.peerShareFull) }
        guard peers.left > 0, peer.left > 0 else { return .unknown }
        peers.take()
        peer.take()
        return .taken
      }
      guard case .taken = share else { return share }
    }
    let room = with(lane) { mailbox, sender -> Room in
      if mailbox.isRefused(at: now) { return .full(.mailboxFull) }
      if sender.isRefused(at: now) { return .full(.senderShareFull) }
      guard mailbox.left > 0, sender.left > 0 else { return .unknown }
      mailbox.take()
      sender.take()
      return .taken
    }
    if case .taken = room { return room }
    giveSharesBack(of: lane)
    return room
  }

  /// Takes room by what the store has counted.
  /// - Returns: never `.unknown`.
  mutating func take(
    _ lane: MailboxLane, after usage: MailboxUsage, _ before: Ended, at now: ContinuousClock.Instant
  ) -> Room {
    let bounds = bounds
    var shareHasRoom = true
    if lane.peer != nil {
      shareHasRoom = withShares(of: lane) { peers, peer in
        let peersHaveRoom = peers.renew(
          limit: bounds.peersMax, counted: usage.byPeers, endedBefore: before.peers, at: now)
        let peerHasRoom = peer.renew(limit: bounds.peerMax, counted: usage.byPeer, endedBefore: before.peer, at: now)
        return peersHaveRoom && peerHasRoom
      }
    }
    let room = with(lane) { mailbox, sender -> Room in
      let mailboxHasRoom = mailbox.renew(
        limit: bounds.mailboxMax, counted: usage.total, endedBefore: before.mailbox, at: now)
      let senderHasRoom = sender.renew(
        limit: bounds.senderMax, counted: usage.bySource, endedBefore: before.sender, at: now)
      guard mailboxHasRoom else { return .full(.mailboxFull) }
      guard senderHasRoom else { return .full(.senderShareFull) }
      guard shareHasRoom else { return .full(.peerShareFull) }
      mailbox.take()
      sender.take()
      return .taken
    }
    if case .taken = room { takeShares(of: lane) }
    return room
  }

  /// How much had ended by now: a count that begins now may not see it.
  mutating func ended(_ lane: MailboxLane) -> Ended {
    let (peers, peer) = lane.peer == nil ? (0, 0) : withShares(of: lane) { ($0.ended, $1.ended) }
    return with(lane) { mailbox, sender in
      Ended(mailbox: mailbox.ended, sender: sender.ended, peers: peers, peer: peer)
    }
  }

  mutating func release(_ lane: MailboxLane) {
    mailboxes.updateExisting(lane.mailbox) { $0.release() }
    lanes.updateExisting(lane) { $0.release() }
    guard lane.peer != nil else { return }
    shares.updateExisting(Share(mailbox: lane.mailbox, peer: nil)) { $0.release() }
    shares.updateExisting(Share(mailbox: lane.mailbox, peer: lane.peer)) { $0.release() }
  }

  private mutating func takeShares(of lane: MailboxLane) {
    guard lane.peer != nil else { return }
    withShares(of: lane) { peers, peer in
      peers.take()
      peer.take()
    }
  }

  private mutating func giveSharesBack(of lane: MailboxLane) {
    guard lane.peer != nil else { return }
    withShares(of: lane) { peers, peer in
      peers.giveBack()
      peer.giveBack()
    }
  }

  private mutating func with<Result>(
    _ lane: MailboxLane, _ body: (inout Credit, inout Credit) -> Result
  ) -> Result {
    mailboxes.update(lane.mailbox, orInsert: Credit(limit: bounds.mailboxMax)) { mailbox in
      lanes.update(lane, orInsert: Credit(limit: bounds.senderMax)) { sender in body(&mailbox, &sender) }
    }
  }

  /// The share of all peers, and that of the lane's.
  private mutating func withShares<Result>(
    of lane: MailboxLane, _ body: (inout Credit, inout Credit) -> Result
  ) -> Result {
    let (all, own) = (Share(mailbox: lane.mailbox, peer: nil), Share(mailbox: lane.mailbox, peer: lane.peer))
    var peers = shares.update(all, orInsert: Credit(limit: bounds.peersMax)) { $0 }
    let result = shares.update(own, orInsert: Credit(limit: bounds.peerMax)) { peer in body(&peers, &peer) }
    shares.update(all, orInsert: peers) { $0 = peers }
    return result
  }
}

extension MailboxCredits {
  /// The room of one bound, as this process knows it.
  private struct Credit {
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
    /// Nothing was taken in after all.
    mutating func giveBack() {
      left += 1
      underWay -= 1
    }
    mutating func release() {
      underWay = max(0, underWay - 1)
      ended += 1
    }

    /// Messages under way, or ended since `endedBefore`, when the count began, may have been counted as well. So near
    /// the limit a message can be refused a little early.
    /// - Returns: false if there is no room. The mailbox is then taken to be full for a second.
    mutating func renew(limit: Int, counted: Int, endedBefore: Int, at now: ContinuousClock.Instant) -> Bool {
      let room = limit - counted - underWay - max(0, ended - endedBefore)
      left = room > 0 ? max(1, min(256, room / 8)) : 0
      refusedUntil = counted < limit ? nil : now + .seconds(1)
      return room > 0
    }
  }
}
