import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Relay

/// The envelopes that a connection holds, and the moments at which it reads more.
@Suite(.tags(.unit)) struct LiveWindowTests {
  private var window = DeliveryWindow(hasKey: true, bounds: Self.small)
  private let start = ContinuousClock.now

  private static var small: DeliveryWindow.Bounds {
    var bounds = DeliveryWindow.Bounds()
    (bounds.deliveriesMax, bounds.heldMax, bounds.pageMax) = (4, 8, 3)
    bounds.shortPatience = bounds.patience
    bounds.doubtMin = 6
    return bounds
  }

  private static func delivery(_ id: UInt64, bytes: Int = 10) -> DeliveryWindow.Delivery {
    DeliveryWindow.Delivery(id: id, sequence: Int64(id) * 10, byteCount: bytes, receipt: nil)
  }

  /// Wakes, reads and delivers `ids`.
  private mutating func deliver(_ ids: UInt64..., bytes: Int = 10, isWritable: Bool = true) -> DeliveryWindow.Action {
    _ = window.woken()
    _ = window.readBegan()
    for id in ids {
      let isSent = window.delivered(Self.delivery(id, bytes: bytes), at: start)
      #expect(isSent)
    }
    return window.pageDelivered(found: ids.count, sent: ids.count, isWritable: isWritable)
  }

  @Test mutating func `one read at a time, and a wake-up during a read brings another`() {
    #expect(window.woken() == .read)
    #expect(window.woken() == .rest)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [], limit: 3))
    #expect(window.woken() == .rest)
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .read)
    _ = window.readBegan()
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .rest)
  }

  /// Its device is woken by push once its connection has ended.
  @Test mutating func `a client is owed what it has not answered, also when that is set aside`() {
    #expect(deliver(1) == .rest)
    #expect(window.isOwed)
    _ = window.timePassed(now: start + Self.small.patience)
    #expect(window.isOwed)
    #expect(window.acknowledged(1).removal != nil)
    #expect(!window.isOwed)
    #expect(deliver(2) == .rest)
    _ = window.refused(2)
    #expect(!window.isOwed, "it has answered")
    _ = window.woken()
    _ = window.readBegan()
    #expect(window.isOwed, "nobody knows yet")
    _ = window.pageDelivered(found: 0, sent: 0, isWritable: true)
    #expect(!window.isOwed)
  }

  @Test mutating func `a full page is read on, a shorter one is the end`() {
    #expect(deliver(1, 2, 3) == .read)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [10, 20, 30], limit: 1))
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .rest)
  }

  @Test mutating func `a full window reads on when something is acknowledged or refused`() {
    _ = deliver(1, 2, 3)
    #expect(deliver(4) == .rest)
    #expect(window.woken() == .rest)
    let (removal, action) = window.acknowledged(2)
    #expect(removal == Self.delivery(2) && action == .read)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [10, 20, 30, 40], limit: 1))
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .rest)
    #expect(window.woken() == .read)
  }

  @Test mutating func `messages under removal are named until they are gone`() {
    _ = deliver(1, 2)
    #expect(window.acknowledged(1).removal == Self.delivery(1))
    #expect(window.acknowledged(1).removal == nil)
    _ = window.woken()
    #expect(window.readBegan()?.held == [10, 20])
    _ = window.pageDelivered(found: 0, sent: 0, isWritable: true)
    _ = window.removed(1)
    _ = window.woken()
    #expect(window.readBegan()?.held == [20])
  }

  @Test mutating func `an id that is not held means nothing`() {
    _ = deliver(1)
    let (removal, action) = window.acknowledged(7)
    #expect(removal == nil && action == .rest)
    #expect(window.refused(7) == .rest)
    #expect(window.removed(7) == .rest)
    window.removalFailed(7)
    #expect(window.holds(1) && !window.holds(7))
  }

  @Test mutating func `a refused message stays held, makes room, and can be acknowledged later`() {
    _ = deliver(1, 2, 3)
    _ = deliver(4)
    _ = window.woken()
    #expect(window.refused(1) == .read)
    #expect(window.refused(1) == .rest)
    #expect(window.readBegan()?.held == [10, 20, 30, 40])
    _ = window.pageDelivered(found: 0, sent: 0, isWritable: true)
    #expect(window.acknowledged(1).removal == Self.delivery(1))
  }

  @Test mutating func `unacknowledged messages stop counting, but not being held`() {
    _ = deliver(1, 2, 3)
    _ = deliver(4)
    _ = window.woken()
    #expect(window.timePassed(now: start + .seconds(29)) == .rest)
    #expect(window.timePassed(now: start + .seconds(30)) == .read)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [10, 20, 30, 40], limit: 3))
  }

  @Test mutating func `a device silent for a whole window gets new messages at once`() {
    var bounds = Self.small
    bounds.shortPatience = .seconds(20)
    window = DeliveryWindow(hasKey: true, bounds: bounds)
    _ = deliver(1, 2, 3)
    #expect(deliver(4) == .rest)
    _ = window.woken(now: start)
    #expect(window.retryDelay == nil)
    #expect(window.timePassed(now: start + .seconds(29)) == .rest)
    #expect(window.timePassed(now: start + .seconds(30)) == .read)
    #expect(deliver(5, 6, 7) == .read)
    _ = deliver(8)
    #expect(window.isFull)
    _ = window.acknowledged(1)
    _ = window.removed(1)
    #expect(window.woken(now: start + .seconds(19)) == .rest)
    #expect(window.retryDelay == .seconds(20))
    #expect(window.woken(now: start + .seconds(20)) == .read)
  }

  @Test mutating func `a device that acknowledges some of a window is given time for the others`() {
    var bounds = Self.small
    bounds.shortPatience = .seconds(1)
    window = DeliveryWindow(hasKey: true, bounds: bounds)
    _ = deliver(1, 2, 3)
    _ = window.timePassed(now: start + .seconds(30))
    _ = deliver(4)
    _ = window.acknowledged(4)
    _ = deliver(5)
    _ = window.timePassed(now: start + .seconds(30))
    #expect(window.retryDelay == nil)
  }

  @Test mutating func `messages that somebody else removed make room`() {
    _ = deliver(1, 2, 3)
    _ = deliver(4)
    _ = window.woken()
    #expect(window.removed(sequence: 99) == .rest)
    #expect(window.removed(sequence: 20) == .read)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [10, 30, 40], limit: 1))
    #expect(window.acknowledged(2).removal == nil)
  }

  @Test mutating func `no more is read than the socket is likely to take`() {
    var bounds = DeliveryWindow.Bounds()
    (bounds.pageMax, bounds.bytesMax) = (16, 1 << 30)
    window = DeliveryWindow(hasKey: true, bounds: bounds)
    _ = window.woken()
    #expect(window.readBegan()?.limit == 16)
    for id: UInt64 in 1...2 { _ = window.delivered(Self.delivery(id), at: start) }
    _ = window.pageDelivered(found: 16, sent: 2, isWritable: false)
    var next: UInt64 = 3
    for limit in [3, 6, 12, 16, 16] {
      _ = window.becameWritable()
      #expect(window.readBegan()?.limit == limit)
      for id in next..<next + UInt64(limit) { _ = window.delivered(Self.delivery(id), at: start) }
      next += UInt64(limit)
      _ = window.pageDelivered(found: limit, sent: limit, isWritable: false)
    }
  }

  @Test mutating func `beyond what may be held nothing more is sent, until something goes`() {
    for id: UInt64 in 1...8 {
      _ = deliver(id)
      _ = window.refused(id)
    }
    #expect(window.woken() == .rest)
    #expect(window.acknowledged(3).action == .rest)
    #expect(window.removed(3) == .read)
  }

  @Test mutating func `messages that left the store make room in a full window`() {
    for id: UInt64 in 1...5 {
      _ = deliver(id)
      _ = window.refused(id)
    }
    #expect(window.doubtful.isEmpty)
    for id: UInt64 in 6...8 {
      _ = deliver(id)
      _ = window.refused(id)
    }
    #expect(window.isFull)
    // A message that is just being removed is answered by its removal.
    _ = window.acknowledged(8)
    #expect(window.doubtful == [10, 20, 30, 40, 50, 60, 70])
    #expect(window.woken() == .rest)
    #expect(window.gone([]) == .rest)
    #expect(window.gone([10, 30, 999]) == .read)
    #expect(window.readBegan()?.held == [20, 40, 50, 60, 70, 80])
    #expect(!window.holds(1) && window.holds(2) && !window.holds(3))
  }

  @Test mutating func `messages that left the store stop standing in the way, even if never acknowledged`() {
    _ = deliver(1, 2, 3)
    _ = deliver(4)
    _ = window.woken()
    #expect(window.gone([10, 20, 30, 40]) == .read)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [], limit: 3))
  }

  @Test mutating func `large deliveries fill the window by their bytes, and one is always allowed`() {
    #expect(deliver(1, bytes: 2 << 20) == .rest)
    #expect(window.woken() == .rest)
    #expect(window.acknowledged(1).action == .read)
  }

  @Test mutating func `nothing is read for a socket without room, a device without a key, or an ended connection`() {
    #expect(deliver(1, 2, 3, isWritable: false) == .rest)
    #expect(window.becameWritable() == .read)
    #expect(window.readBegan() != nil)
    #expect(window.pageDelivered(found: 1, sent: 0, isWritable: true) == .read)
    #expect(window.keyChanged(isUsable: false) == .rest)
    #expect(window.readBegan() == nil)
    #expect(window.keyChanged(isUsable: true) == .read)
    window.ended()
    #expect(window.readBegan() == nil)
    #expect(window.woken() == .rest)
    let isSent = window.delivered(Self.delivery(4), at: start)
    #expect(!isSent)
    // Messages that the client has taken before count.
    #expect(window.acknowledged(2).removal == Self.delivery(2))
  }

  @Test mutating func `a failed read is repeated when it is woken`() {
    _ = window.woken()
    _ = window.readBegan()
    window.readFailed()
    #expect(window.woken() == .read)
  }

  @Test mutating func `messages that could not be removed are kept, and not sent again`() {
    _ = deliver(1)
    _ = window.acknowledged(1)
    window.removalFailed(1)
    _ = window.woken()
    #expect(window.readBegan()?.held == [10])
  }

  @Test(arguments: 0..<40) func `in any order of events nothing is missed or comes twice, and no bound is exceeded`(
    seed: UInt64
  ) {
    var model = WindowModel(bounds: Self.small, seed: seed)
    for _ in 0..<2000 { model.step() }
    model.comeToRest()
    #expect(model.faults == [])
    #expect(model.unseen == [])
  }
}

/// A store, a client and the shell around a window, all at random.
private struct WindowModel {
  private var random: SeededGenerator
  private var window: DeliveryWindow
  private let bounds: DeliveryWindow.Bounds
  private var now = ContinuousClock.now

  /// Sequences in the mailbox; the window holds some of them.
  private var stored: [Int64] = []
  private var nextSequence: Int64 = 1
  private var sentSequences: Set<Int64> = []
  /// Unanswered or refused, with when they were sent; being removed.
  private var open: [UInt64: ContinuousClock.Instant] = [:]
  private var refused: Set<UInt64> = []
  private var removing: Set<UInt64> = []
  private var isReadQueued = false
  private var page: (envelopes: [Int64], limit: Int)?
  private var isWritable = true
  private(set) var faults: [String] = []

  init(bounds: DeliveryWindow.Bounds, seed: UInt64) {
    random = SeededGenerator(seed: seed)
    window = DeliveryWindow(hasKey: true, bounds: bounds)
    self.bounds = bounds
  }

  var unseen: [Int64] { stored.filter { !sentSequences.contains($0) } }
  private var heldCount: Int { open.count + refused.count + removing.count }

  mutating func step() {
    switch Int.random(in: 0..<12, using: &random) {
    case 0, 1: store()
    case 2, 3: beginRead()
    case 4, 5: deliverPage(isCut: Bool.random(using: &random))
    case 6: answer(isAccepted: true)
    case 7: answer(isAccepted: Int.random(in: 0..<4, using: &random) > 0)
    case 8: finishRemoval(isSuccess: Int.random(in: 0..<5, using: &random) > 0)
    case 9: becomeWritable()
    case 10: failRead()
    default: passTime()
    }
  }

  /// The client takes everything, and nothing fails any more.
  mutating func comeToRest() {
    for _ in 0..<(stored.count * 8 + 100) {
      becomeWritable()
      beginRead()
      deliverPage(isCut: false)
      answer(isAccepted: true)
      finishRemoval(isSuccess: true)
    }
  }

  private mutating func follow(_ action: DeliveryWindow.Action) {
    guard action == .read else { return }
    if isReadQueued || page != nil { faults.append("two reads at once") }
    isReadQueued = true
  }

  private mutating func store() {
    stored.append(nextSequence)
    nextSequence += 1
    follow(window.woken())
  }

  private mutating func beginRead() {
    guard isReadQueued else { return }
    isReadQueued = false
    guard let read = window.readBegan() else { return }
    if read.limit > bounds.pageMax || read.limit < 1 { faults.append("a read of \(read.limit)") }
    page = (Array(stored.filter { !read.held.contains($0) }.prefix(read.limit)), read.limit)
  }

  private mutating func deliverPage(isCut: Bool) {
    guard let (envelopes, _) = page else { return }
    page = nil
    let sent = isCut && !envelopes.isEmpty ? Int.random(in: 0..<envelopes.count, using: &random) : envelopes.count
    for sequence in envelopes.prefix(sent) {
      if !sentSequences.insert(sequence).inserted { faults.append("\(sequence) twice") }
      let delivery = DeliveryWindow.Delivery(id: UInt64(sequence), sequence: sequence, byteCount: 10, receipt: nil)
      if !window.delivered(delivery, at: now) { faults.append("refused to deliver") }
      open[delivery.id] = now
    }
    let counting = open.values.count { $0 + bounds.patience > now }
    if counting > bounds.deliveriesMax { faults.append("\(counting) unacknowledged") }
    if heldCount > bounds.heldMax { faults.append("\(heldCount) held") }
    isWritable = !isCut
    follow(window.pageDelivered(found: envelopes.count, sent: sent, isWritable: isWritable))
  }

  private mutating func failRead() {
    guard page != nil else { return }
    page = nil
    window.readFailed()
    follow(window.woken())
  }

  private mutating func answer(isAccepted: Bool) {
    guard let id = Array(open.keys).sorted().randomElement(using: &random) ?? refused.min() else { return }
    if isAccepted {
      let (removal, action) = window.acknowledged(id)
      if removal?.id != id { faults.append("\(id) was not to be removed") }
      open[id] = nil
      refused.remove(id)
      removing.insert(id)
      follow(action)
    } else if open.removeValue(forKey: id) != nil {
      refused.insert(id)
      follow(window.refused(id))
    }
  }

  private mutating func finishRemoval(isSuccess: Bool) {
    guard let id = removing.min() else { return }
    removing.remove(id)
    if isSuccess {
      stored.removeAll { $0 == Int64(id) }
      follow(window.removed(id))
    } else {
      refused.insert(id)
      window.removalFailed(id)
    }
  }

  private mutating func becomeWritable() {
    guard !isWritable else { return }
    isWritable = true
    follow(window.becameWritable())
  }

  private mutating func passTime() {
    now += .seconds(10)
    follow(window.timePassed(now: now))
  }
}
