import RelayCore
import TestSupport

@testable import Relay

/// A mailbox that two processes append to, a client, and the shell around the window of its connection to one of them,
/// all at random.
struct FreshModel {
  private struct Row {
    let sequence: Int64
    /// By the model's clock. A message is submitted before its statement begins.
    let submitted: Int
    var accepted: Int?
    /// From before yesterday: no append names it.
    var isOld = false
  }

  /// This process's append: one at a time, told before the next begins.
  private enum Append {
    case none
    case begun([Row], others: [Int64])
    case committed([Row], others: [Int64])
  }

  private var random: SeededGenerator
  private var window: DeliveryWindow
  private let bounds: DeliveryWindow.Bounds
  let room = FreshRoom(bytesMax: 1 << 20)
  private var now = ContinuousClock.now
  private var clock = 0

  /// In the mailbox, visible to all.
  private var stored: [Row] = []
  private var nextSequence: Int64 = 1
  private var append = Append.none
  /// Rows that the other process has begun: their sequences are taken, and nobody sees them.
  private var elsewhere: [Row] = []
  private var wakeUps = 0

  private var sent: Set<Int64> = []
  private var open: [UInt64] = []
  private var removing: [UInt64] = []
  private var isReadQueued = false
  private var isFreshQueued = false
  private var page: [Row]?
  private var isWritable = true
  private(set) var directCount = 0
  private(set) var faults: [String] = []

  init(bounds: DeliveryWindow.Bounds, seed: UInt64) {
    random = SeededGenerator(seed: seed)
    window = DeliveryWindow(hasKey: true, bounds: bounds)
    self.bounds = bounds
    for _ in 0..<Int.random(in: 0..<6, using: &random) {
      var row = newRow()
      (row.accepted, row.isOld) = (tick(), Bool.random(using: &random))
      stored.append(row)
    }
    wakeUps = 1
  }

  var unseen: [Int64] { stored.map(\.sequence).filter { !sent.contains($0) } }

  mutating func step() {
    switch Int.random(in: 0..<30, using: &random) {
    case 0, 1, 2: appendHere()
    case 3: beginElsewhere()
    case 4: commitElsewhere()
    case 5: wake()
    case 6...8: beginRead()
    case 9...11: deliverPage(isCut: isOne(of: 6))
    case 12...15: deliverFresh(isCut: isOne(of: 8))
    case 16...20: acknowledge()
    case 21...25: finishRemoval(isSuccess: !isOne(of: 12))
    case 26, 27: becomeWritable()
    case 28: isOne(of: 20) ? passTime() : removeElsewhere()
    default: failRead()
    }
  }

  private mutating func isOne(of count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

  /// Everything commits, the client takes everything, and the mailbox is read once more.
  mutating func comeToRest() {
    for _ in 0..<3 { appendHere(isLast: true) }
    while !elsewhere.isEmpty { commitElsewhere() }
    for _ in 0..<(stored.count * 8 + 200) {
      follow(window.woken(now: now))
      becomeWritable()
      beginRead()
      deliverPage(isCut: false)
      deliverFresh(isCut: false)
      acknowledge()
      finishRemoval(isSuccess: true)
      now += .seconds(60)
      follow(window.timePassed(now: now))
    }
  }

  private mutating func tick() -> Int {
    clock += 1
    return clock
  }

  private mutating func newRow() -> Row {
    defer { nextSequence += 1 }
    return Row(sequence: nextSequence, submitted: tick())
  }

  private mutating func follow(_ action: DeliveryWindow.Action) {
    guard action != .rest else { return }
    if isReadQueued || isFreshQueued || page != nil { faults.append("two pages at once") }
    if action == .read { isReadQueued = true } else { isFreshQueued = true }
  }

  // MARK: The mailbox

  /// The next step of this process's append: it begins, commits, is told.
  private mutating func appendHere(isLast: Bool = false) {
    switch append {
    case .none:
      guard !isLast, isOne(of: 3) else { return }
      let rows = (0..<Int.random(in: 1...3, using: &random)).map { _ in newRow() }
      append = .begun(rows, others: stored.filter { !$0.isOld }.map(\.sequence))
    case .begun(let rows, let others):
      stored += accepted(rows)
      append = .committed(rows, others: others)
    case .committed(let rows, let others):
      append = .none
      for row in rows { tell(row, others) }
    }
  }

  private mutating func tell(_ row: Row, _ others: [Int64]) {
    let seen = others.count > 8 ? nil : others
    if let message = FreshMessage(.sample(row.sequence, seeing: seen), in: room) {
      follow(window.stored(message, now: now))
    } else {
      follow(window.woken(now: now))
    }
  }

  private mutating func accepted(_ rows: [Row]) -> [Row] {
    let time = tick()
    return rows.map { Row(sequence: $0.sequence, submitted: $0.submitted, accepted: time) }
  }

  private mutating func beginElsewhere() {
    if elsewhere.count < 2, isOne(of: 6) { elsewhere.append(newRow()) }
  }

  /// In any order; the wake-up takes its time, and may be lost.
  private mutating func commitElsewhere() {
    guard let index = elsewhere.indices.randomElement(using: &random) else { return }
    stored += accepted([elsewhere.remove(at: index)])
    if !isOne(of: 4) { wakeUps += 1 }
  }

  private mutating func wake() {
    // A poll, now and then.
    guard wakeUps > 0 || isOne(of: 20) else { return }
    wakeUps = max(0, wakeUps - 1)
    follow(window.woken(now: now))
  }

  /// Another process removes what the client has had there, or has not had here.
  private mutating func removeElsewhere() {
    guard isOne(of: 4) else { return }
    if let index = stored.indices.randomElement(using: &random), stored.count > 4 { stored.remove(at: index) }
  }

  // MARK: The shell

  private mutating func beginRead() {
    guard isReadQueued else { return }
    isReadQueued = false
    guard let read = window.readBegan() else { return }
    let oldest = stored.filter { !read.held.contains($0.sequence) }.sorted { $0.sequence < $1.sequence }
    page = Array(oldest.prefix(read.limit))
  }

  private mutating func deliverPage(isCut: Bool) {
    guard let rows = page else { return }
    page = nil
    send(rows, isCut: isCut)
  }

  private mutating func deliverFresh(isCut: Bool) {
    guard isFreshQueued else { return }
    isFreshQueued = false
    let messages = window.freshBegan()
    let rows = messages.compactMap { message in stored.first { $0.sequence == message.sequence } }
    // One that was removed meanwhile is sent, as it is from a page.
    let gone = messages.filter { message in !rows.contains { $0.sequence == message.sequence } }
    directCount += messages.count
    send(
      (rows + gone.map { Row(sequence: $0.sequence, submitted: 0) }).sorted { $0.sequence < $1.sequence },
      isCut: isCut)
  }

  private mutating func send(_ rows: [Row], isCut: Bool) {
    let count = isCut && !rows.isEmpty ? Int.random(in: 0..<rows.count, using: &random) : rows.count
    for row in rows.prefix(count) {
      if !sent.insert(row.sequence).inserted { faults.append("\(row.sequence) twice") }
      let older = stored.filter { other in
        other.accepted.map { $0 < row.submitted } ?? false && !sent.contains(other.sequence)
      }
      for other in older { faults.append("\(row.sequence) overtakes \(other.sequence)") }
      let delivery = DeliveryWindow.Delivery(
        id: UInt64(row.sequence), sequence: row.sequence, byteCount: 10, receipt: nil)
      if !window.delivered(delivery, at: now) { faults.append("refused to deliver") }
      open.append(delivery.id)
    }
    if open.count + removing.count > bounds.heldMax { faults.append("\(open.count + removing.count) held") }
    isWritable = !isCut
    follow(window.pageDelivered(found: rows.count, sent: count, isWritable: isWritable))
  }

  private mutating func failRead() {
    guard page != nil, isOne(of: 3) else { return }
    page = nil
    window.readFailed()
    follow(window.woken(now: now))
  }

  private mutating func acknowledge() {
    guard let index = open.indices.randomElement(using: &random) else { return }
    let id = open.remove(at: index)
    let (removal, action) = window.acknowledged(id)
    if removal?.id == id { removing.append(id) }
    follow(action)
  }

  private mutating func finishRemoval(isSuccess: Bool) {
    guard !removing.isEmpty else { return }
    let id = removing.removeFirst()
    if isSuccess, stored.contains(where: { $0.sequence == Int64(id) }) {
      stored.removeAll { $0.sequence == Int64(id) }
      follow(window.removed(id))
    } else {
      // Acknowledged again, or removed by somebody else.
      window.removalFailed(id)
      if stored.contains(where: { $0.sequence == Int64(id) }) {
        open.append(id)
      } else {
        follow(window.gone([Int64(id)]))
      }
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
