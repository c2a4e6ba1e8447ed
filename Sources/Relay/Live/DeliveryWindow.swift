import RelayCore

/// The part of its mailbox that a device's live connection holds, and when it reads more. No I/O; `DeviceSession`
/// does it.
///
/// Nothing is sent twice on one connection: a delivery is held until it is removed from the store, and each read
/// leaves out everything held. The bounds limit how much may be delivered and not acknowledged. Every wake-up that
/// could not be followed at once is remembered, so stored messages are read once there is room.
///
/// A message that this process has just stored is delivered without a read, if no message can be older and undelivered
/// (docs/architecture.md, "Direct delivery"): nothing waits to be read, its place is behind all that was delivered, and
/// all others that its append has seen in the mailbox were delivered on this connection. In any other case, and in any
/// doubt, it is read.
///
/// | page | becomes |
/// |---|---|
/// | `none` | `queued`, when something may wait and there is room; `fresh`, when all that waits was just stored here |
/// | `queued` | `underWay` as the read begins; `none` when there is no room any more |
/// | `underWay` | `none`, when its page was delivered, or the read failed |
/// | `fresh` | `none`, when the messages that `freshBegan` took were delivered |
struct DeliveryWindow: Sendable {
  struct Bounds: Sendable {
    /// Delivered and not acknowledged.
    var deliveriesMax = 100
    /// The bytes of these deliveries. One delivery is always allowed.
    var bytesMax = 1 << 20
    /// All that is held: with what the client refused or left unacknowledged for long, and what is just being removed.
    /// Beyond it nothing more is sent on this connection.
    var heldMax = 2000
    /// So much set aside that it is worth asking which of it the store still has.
    var doubtMin = 500
    /// Envelopes of one read.
    var pageMax = 16
    /// Messages of this process that are kept for a delivery without a read, and their bytes. They wait for the page
    /// that is under way. Beyond it all of them are read.
    var freshMax = 16
    var freshBytesMax = 256 << 10
    /// Places that are remembered although the store has removed them.
    var removedMax = 64
    /// How long a delivery stands in the way of others: some clients never acknowledge what they cannot read.
    var patience = Duration.seconds(30)
    /// The same, once a client has let a whole window pass without a word.
    var shortPatience = Duration.seconds(1)
  }

  enum Action: Sendable, Equatable {
    case rest
    /// Queue a read: `readBegan` follows.
    case read
    /// Queue a delivery of what this process has stored: `freshBegan` follows.
    case deliverFresh
  }

  /// An envelope under the id that this connection gave it.
  struct Delivery: Sendable, Equatable {
    /// The id; no other delivery that is held has the same.
    let id: UInt64
    let sequence: Int64
    let byteCount: Int
    /// The receipt for its sender, sent when the delivery is acknowledged.
    let receipt: DeliveryReceipt?
  }

  /// The oldest envelopes that are not among `held`, at most `limit` of them.
  struct Read: Sendable, Equatable {
    let held: [Int64]
    let limit: Int
  }

  /// The one page that is on its way to the socket.
  private enum Page {
    case none, queued, fresh
    case underWay(limit: Int)
  }

  private struct Held: Sendable {
    /// - `unacknowledged` becomes any other, or is removed.
    /// - `setAside`, refused or not acknowledged in time, becomes `removing`.
    /// - `removing`, acknowledged, is removed; `setAside` when it was not, as far as is known.
    enum State { case unacknowledged, setAside, removing }
    let delivery: Delivery
    let since: ContinuousClock.Instant
    var state = State.unacknowledged
    /// Whether it was set aside because the client has not answered.
    var isUnanswered = false
  }

  private let bounds: Bounds
  private var held: [Held] = []
  private var unacknowledgedCount = 0
  private var unacknowledgedBytes = 0
  /// Set aside in a row, for want of an answer.
  private var unanswered = (count: 0, bytes: 0)
  private var isImpatient = false
  /// How many of a page are likely to find room in the socket: what does not is read in vain.
  private var pageLimit: Int
  private var page = Page.none
  /// Whether the store may hold what was not read: at first the backlog. Nothing that is read anyway is kept.
  private var isBehind = true {
    didSet { if isBehind { fresh = [] } }
  }
  /// Messages that this process has stored and nobody has read yet, by rising sequence.
  private var fresh: [FreshMessage] = []
  /// The highest sequence that was delivered.
  private var newest = Int64.min
  /// Delivered, and removed from the store of late, oldest first: an append may have seen them there.
  private var removedLately: [Int64] = []
  private var isWritable = true
  /// Without a key nothing can be sent to the device.
  private var hasKey: Bool
  private(set) var hasEnded = false

  init(hasKey: Bool, bounds: Bounds = Bounds()) {
    self.hasKey = hasKey
    self.bounds = bounds
    pageLimit = bounds.pageMax
  }

  /// Nothing more is sent until something that is held goes.
  var isFull: Bool { held.count >= bounds.heldMax }

  /// Held messages that the store may not have any more, if there are many. Another process may have removed them,
  /// and this one cannot know. Without asking, a connection that holds `heldMax` of them would never be sent anything
  /// again.
  var doubtful: [Int64] {
    guard held.count >= bounds.doubtMin else { return [] }
    return held.lazy.filter { $0.state == .setAside }.map(\.delivery.sequence)
  }

  /// How long until what stands in the way of what waits is set aside, for a client that does not answer; nil
  /// otherwise.
  var retryDelay: Duration? { isImpatient && isBehind && unacknowledgedCount > 0 ? bounds.shortPatience : nil }

  /// Whether something waits, or may wait, that the client has not had, or not answered.
  var isOwed: Bool {
    if case .underWay = page { return true }
    return isBehind || !fresh.isEmpty || unacknowledgedCount > 0 || held.contains(where: \.isUnanswered)
  }

  // MARK: Reading

  /// Something may have been stored.
  mutating func woken(now: ContinuousClock.Instant = .now) -> Action {
    isBehind = true
    // Such a client is not waited for any more.
    if isImpatient { setAside(now: now) }
    return next()
  }

  /// The queued read is about to be made.
  /// - Returns: nil when none is to be made after all.
  mutating func readBegan() -> Read? {
    page = .none
    guard let limit = room else { return nil }
    page = .underWay(limit: limit)
    // A message stored from now on that the read does not see wakes again.
    isBehind = false
    return Read(held: held.map(\.delivery.sequence), limit: limit)
  }

  /// The read found nothing out: `woken` follows when it is worth another try.
  mutating func readFailed() {
    page = .none
    isBehind = true
  }

  // MARK: Delivering without a read

  /// This process has stored `message`. It tells of its messages in the order of their sequences.
  mutating func stored(_ message: FreshMessage, now: ContinuousClock.Instant = .now) -> Action {
    // A read was faster.
    if hasDelivered(message.sequence) { return .rest }
    guard !isBehind, !hasEnded, message.sequence > fresh.last?.sequence ?? newest, fresh.count < bounds.freshMax,
      fresh.reduce(message.byteCount, { $0 + $1.byteCount }) <= bounds.freshBytesMax
    else { return woken(now: now) }
    if isImpatient { setAside(now: now) }
    fresh.append(message)
    return next()
  }

  /// The queued delivery is about to be made.
  /// - Returns: the messages to be sent, in their order; possibly none. `pageDelivered` follows.
  mutating func freshBegan() -> [FreshMessage] {
    guard room != nil else { return [] }
    let room = countLeft
    var bytes = bytesLeft
    var taken: [FreshMessage] = []
    for message in fresh where taken.count < room {
      // One is always allowed.
      guard taken.isEmpty || message.byteCount <= bytes, isNext(message, behind: taken) else { break }
      taken.append(message)
      bytes -= message.byteCount
    }
    fresh.removeFirst(taken.count)
    return taken
  }

  /// Whether nothing undelivered can be older than `message`, once `others` are delivered.
  private func isNext(_ message: FreshMessage, behind others: [FreshMessage] = []) -> Bool {
    message.sequence > newest
      && message.others.allSatisfy { other in hasDelivered(other) || others.contains { $0.sequence == other } }
  }

  /// Whether it is known to have been delivered on this connection: it is held, or was removed of late.
  private func hasDelivered(_ sequence: Int64) -> Bool {
    held.contains { $0.delivery.sequence == sequence } || removedLately.contains(sequence)
  }

  // MARK: Delivering

  /// An envelope of the page is about to be sent.
  /// - Returns: false when it must not be.
  mutating func delivered(_ delivery: Delivery, at now: ContinuousClock.Instant) -> Bool {
    guard !hasEnded else { return false }
    held.append(Held(delivery: delivery, since: now))
    newest = max(newest, delivery.sequence)
    count(delivery, by: 1)
    return true
  }

  /// `sent` of the page's `found` envelopes were delivered. The others are read again.
  mutating func pageDelivered(found: Int, sent: Int, isWritable: Bool) -> Action {
    // A full page: there may be more behind it.
    if case .underWay(let limit) = page, found >= limit { isBehind = true }
    if sent < found { isBehind = true }
    pageLimit = sent < found ? sent + 1 : max(pageLimit, min(bounds.pageMax, sent * 2))
    page = .none
    self.isWritable = isWritable
    return next()
  }

  mutating func becameWritable() -> Action {
    isWritable = true
    return next()
  }

  mutating func keyChanged(isUsable: Bool) -> Action {
    hasKey = isUsable
    return next()
  }

  // MARK: The client's answers

  /// - Returns: what is to be removed from the store: nil for an id that is not held, or is just being removed.
  ///   `removed` or `removalFailed` follows.
  mutating func acknowledged(_ id: UInt64) -> (removal: Delivery?, action: Action) {
    guard let index = index(of: id), held[index].state != .removing else { return (nil, .rest) }
    change(index, to: .removing)
    unanswered = (0, 0)
    return (held[index].delivery, next())
  }

  /// The client could not take it: it keeps its place in the mailbox, and is not sent again on this connection.
  mutating func refused(_ id: UInt64) -> Action {
    guard let index = index(of: id), held[index].state == .unacknowledged else { return .rest }
    change(index, to: .setAside)
    unanswered = (0, 0)
    return next()
  }

  /// It is not in the store any more.
  mutating func removed(_ id: UInt64) -> Action {
    guard let index = index(of: id) else { return .rest }
    return removed(at: index)
  }

  /// Somebody else has removed it from the store.
  mutating func removed(sequence: Int64) -> Action {
    guard let index = held.firstIndex(where: { $0.delivery.sequence == sequence }) else { return .rest }
    return removed(at: index)
  }

  /// The store does not have these any more, whoever removed them.
  mutating func gone(_ sequences: Set<Int64>) -> Action {
    for gone in held where sequences.contains(gone.delivery.sequence) {
      if gone.state == .unacknowledged { count(gone.delivery, by: -1) }
      remember(gone.delivery.sequence)
    }
    held.removeAll { sequences.contains($0.delivery.sequence) }
    return next()
  }

  private mutating func removed(at index: Int) -> Action {
    if held[index].state == .unacknowledged { count(held[index].delivery, by: -1) }
    remember(held[index].delivery.sequence)
    held.remove(at: index)
    // An idle connection keeps no room for what it held when it was busy.
    if held.isEmpty { held = [] }
    return next()
  }

  private mutating func remember(_ removed: Int64) {
    if removedLately.count >= bounds.removedMax { removedLately.removeFirst() }
    removedLately.append(removed)
  }

  /// It is still in the store, and stays there for the next connection; or it is gone, or another transaction is about
  /// to remove it. It stays held, since nobody knows: it must not come twice on this connection.
  mutating func removalFailed(_ id: UInt64) {
    guard let index = index(of: id) else { return }
    change(index, to: .setAside)
  }

  /// Sets aside what was not acknowledged for long.
  mutating func timePassed(now: ContinuousClock.Instant) -> Action {
    // An idle connection keeps no room. An append that saw one of them still costs a read, and nothing else.
    removedLately = []
    guard unacknowledgedCount > 0 else { return .rest }
    setAside(now: now)
    return next()
  }

  private mutating func setAside(now: ContinuousClock.Instant) {
    let latest = now - (isImpatient ? bounds.shortPatience : bounds.patience)
    for index in held.indices where held[index].state == .unacknowledged && held[index].since <= latest {
      change(index, to: .setAside)
      held[index].isUnanswered = true
      unanswered.count += 1
      unanswered.bytes += held[index].delivery.byteCount
    }
    if unanswered.count >= bounds.deliveriesMax || unanswered.bytes >= bounds.bytesMax { isImpatient = true }
  }

  /// Nothing more is read or sent; what the client still acknowledges counts.
  mutating func ended() {
    hasEnded = true
    if !fresh.isEmpty { isBehind = true }
  }

  func holds(_ id: UInt64) -> Bool { index(of: id) != nil }

  // MARK: Room

  private mutating func next() -> Action {
    guard case .none = page else { return .rest }
    if !fresh.isEmpty { fresh = fresh.filter { !hasDelivered($0.sequence) } }
    if let first = fresh.first, room == nil || !isNext(first) { isBehind = true }
    if isBehind, room != nil {
      page = .queued
      return .read
    }
    guard !fresh.isEmpty else { return .rest }
    page = .fresh
    return .deliverFresh
  }

  /// How many envelopes there is room for, whatever their size; nil for none.
  private var room: Int? {
    guard isWritable, hasKey, !hasEnded, countLeft > 0, bytesLeft > 0 else { return nil }
    return max(1, min(countLeft, bytesLeft / WireLimits.messageBytesMax))
  }

  private var countLeft: Int {
    min(pageLimit, bounds.deliveriesMax - unacknowledgedCount, bounds.heldMax - held.count)
  }
  private var bytesLeft: Int { bounds.bytesMax - unacknowledgedBytes }

  /// Clients answer in the order of delivery, so it is found at the beginning.
  private func index(of id: UInt64) -> Int? { held.firstIndex { $0.delivery.id == id } }

  private mutating func change(_ index: Int, to state: Held.State) {
    if held[index].state == .unacknowledged { count(held[index].delivery, by: -1) }
    held[index].state = state
    held[index].isUnanswered = false
  }

  private mutating func count(_ delivery: Delivery, by sign: Int) {
    unacknowledgedCount += sign
    unacknowledgedBytes += sign * delivery.byteCount
  }
}
