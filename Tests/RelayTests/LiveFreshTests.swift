import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Relay

/// Messages that a connection gets from the process that stored them, without a read.
@Suite(.tags(.unit)) struct LiveFreshTests {
  private var window = DeliveryWindow(hasKey: true, bounds: Self.small)
  private let room = FreshRoom(bytesMax: 10_000)
  private let start = ContinuousClock.now

  private static var small: DeliveryWindow.Bounds {
    var bounds = DeliveryWindow.Bounds()
    (bounds.deliveriesMax, bounds.heldMax, bounds.pageMax) = (4, 8, 3)
    (bounds.freshMax, bounds.freshBytesMax, bounds.removedMax) = (3, 100, 2)
    return bounds
  }

  private func fresh(_ sequence: Int64, seeing others: [Int64] = [], bytes: Int = 10) throws -> FreshMessage {
    try #require(FreshMessage(.sample(sequence, seeing: others, bytes: bytes), in: room))
  }

  private mutating func stored(_ sequence: Int64, seeing others: [Int64] = [], bytes: Int = 10) throws
    -> DeliveryWindow.Action
  {
    let message = try fresh(sequence, seeing: others, bytes: bytes)
    return window.stored(message, now: start)
  }

  /// Sends a page of `sequences`, each under an id of the same number.
  private mutating func send(_ sequences: Int64..., isWritable: Bool = true) -> DeliveryWindow.Action {
    for sequence in sequences {
      let delivery = DeliveryWindow.Delivery(
        id: UInt64(sequence), sequence: sequence, byteCount: 10, receipt: nil)
      let isSent = window.delivered(delivery, at: start)
      #expect(isSent)
    }
    return window.pageDelivered(found: sequences.count, sent: sequences.count, isWritable: isWritable)
  }

  private mutating func begun() -> [Int64] { window.freshBegan().map(\.sequence) }

  /// The backlog is read: `sequences` at most two.
  private mutating func read(_ sequences: Int64...) {
    _ = window.woken(now: start)
    #expect(window.readBegan() != nil)
    for sequence in sequences {
      _ = window.delivered(
        DeliveryWindow.Delivery(id: UInt64(sequence), sequence: sequence, byteCount: 10, receipt: nil), at: start)
    }
    let action = window.pageDelivered(found: sequences.count, sent: sequences.count, isWritable: true)
    #expect(action == .rest)
  }

  @Test mutating func `a message goes without a read, once the backlog was read`() throws {
    #expect(try stored(1) == .read)
    #expect(room.taken == 0)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [], limit: 3))
    #expect(send(1) == .rest)

    #expect(try stored(2, seeing: [1]) == .deliverFresh)
    #expect(begun() == [2])
    #expect(send(2) == .rest)
    // Bodies are gone once they are written.
    #expect(room.taken == 0)
    #expect(window.holds(2) && window.isOwed)
    #expect(window.acknowledged(2).removal?.sequence == 2)
  }

  @Test mutating func `a message is read if its append saw another one that was not delivered here`() throws {
    read(1)
    #expect(try stored(3, seeing: [1, 2]) == .read)
    #expect(room.taken == 0)
    #expect(window.readBegan() == DeliveryWindow.Read(held: [1], limit: 3))
    #expect(send(2, 3) == .rest)
    #expect(try stored(4, seeing: [1, 2, 3]) == .deliverFresh)
  }

  @Test mutating func `messages wait for the page under way, and go behind it, together and in order`() throws {
    _ = window.woken()
    _ = window.readBegan()
    #expect(try stored(2, seeing: [1]) == .rest)
    #expect(try stored(3, seeing: [1, 2]) == .rest)
    #expect(send(1) == .deliverFresh)
    // One more, before the page is begun.
    #expect(try stored(4, seeing: [2]) == .rest)
    #expect(begun() == [2, 3, 4])
    // And one while it is sent.
    #expect(try stored(5, seeing: [4]) == .rest)
    _ = window.acknowledged(1)
    #expect(send(2, 3, 4) == .deliverFresh)
    #expect(begun() == [5])
    #expect(send(5) == .rest)
    #expect(room.taken == 0)
  }

  @Test mutating func `a message that the page under way has brought is not sent again`() throws {
    _ = window.woken()
    _ = window.readBegan()
    #expect(try stored(2, seeing: [1]) == .rest)
    #expect(send(1, 2) == .rest)
    #expect(room.taken == 0)
  }

  @Test mutating func `a message that was read before the word of its append came is not sent again`() throws {
    read(1, 2)
    #expect(try stored(2, seeing: [1]) == .rest)
    // Acknowledged and removed meanwhile.
    _ = window.acknowledged(2)
    _ = window.removed(2)
    #expect(try stored(2, seeing: [1]) == .rest)
    // So long ago that nobody remembers it: the store says that it is gone.
    _ = window.timePassed(now: start)
    #expect(try stored(2, seeing: [1]) == .read)
    #expect(room.taken == 0)
  }

  @Test mutating func `a message whose place is before a delivered one is read`() throws {
    read(1, 3)
    #expect(try stored(2, seeing: [1]) == .read)
    _ = window.acknowledged(1)
    #expect(window.readBegan()?.limit == 3)
    // The same of one that waits for a page.
    #expect(try stored(4, seeing: [1, 3]) == .rest)
    #expect(send(2, 5) == .read)
    #expect(room.taken == 0)
  }

  @Test mutating func `messages that were removed of late hold nothing up`() throws {
    read(1, 2)
    for id: UInt64 in 1...2 {
      _ = window.acknowledged(id)
      _ = window.removed(id)
    }
    #expect(try stored(3, seeing: [1, 2]) == .deliverFresh)
    #expect(begun() == [3])
    _ = send(3)
    _ = window.gone([3])
    // Too many were removed since: the first is forgotten.
    #expect(try stored(4, seeing: [2, 3]) == .deliverFresh)
    _ = begun()
    _ = send(4)
    #expect(try stored(5, seeing: [1]) == .read)
  }

  @Test mutating func `a wake-up comes first`() throws {
    read(1)
    #expect(try stored(2, seeing: [1]) == .deliverFresh)
    #expect(window.woken() == .rest)
    #expect(room.taken == 0)
    #expect(begun() == [])
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .read)
    #expect(window.readBegan()?.held == [1])
    _ = window.woken()
    #expect(try stored(4, seeing: [1, 2]) == .rest)
    #expect(room.taken == 0)
    #expect(send(2) == .read)
  }

  @Test mutating func `more than may be kept is read`() throws {
    _ = window.woken()
    _ = window.readBegan()
    for sequence: Int64 in 1...3 { #expect(try stored(sequence) == .rest) }
    #expect(room.taken > 0)
    #expect(try stored(4) == .rest)
    #expect(room.taken == 0)
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .read)

    _ = window.readBegan()
    #expect(try stored(5, bytes: 60) == .rest)
    #expect(try stored(6, bytes: 60) == .rest)
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .read)
  }

  @Test mutating func `no more is sent than the window has room for`() throws {
    read(1, 2)
    #expect(try stored(3) == .deliverFresh)
    #expect(try stored(4) == .rest)
    #expect(try stored(5) == .rest)
    #expect(begun() == [3, 4])
    // The window is full, and what is left over waits in the store.
    #expect(send(3, 4) == .rest)
    #expect(room.taken == 0 && window.isOwed)
    #expect(try stored(6) == .rest)
    #expect(window.acknowledged(1).action == .read)
  }

  @Test mutating func `a page that the socket did not take as a whole is read`() throws {
    read(1)
    #expect(try stored(2) == .deliverFresh)
    #expect(try stored(3) == .rest)
    #expect(begun() == [2, 3])
    let isSent = window.delivered(
      DeliveryWindow.Delivery(id: 2, sequence: 2, byteCount: 10, receipt: nil), at: start)
    #expect(isSent)
    #expect(try stored(4) == .rest)
    #expect(window.pageDelivered(found: 2, sent: 1, isWritable: false) == .rest)
    #expect(room.taken == 0)
    #expect(window.becameWritable() == .read)
    #expect(window.readBegan()?.held == [1, 2])
  }

  @Test mutating func `nothing is kept for a full socket, a device without a key, or an ended connection`() throws {
    read(1)
    #expect(window.keyChanged(isUsable: false) == .rest)
    #expect(try stored(2) == .rest)
    #expect(room.taken == 0)
    #expect(window.keyChanged(isUsable: true) == .read)
    _ = window.readBegan()
    #expect(send(2, isWritable: false) == .rest)
    #expect(try stored(3) == .rest)
    #expect(room.taken == 0)
    #expect(window.becameWritable() == .read)
    _ = window.readBegan()
    #expect(send(3) == .rest)

    #expect(try stored(4) == .deliverFresh)
    window.ended()
    #expect(room.taken == 0 && window.isOwed)
    #expect(begun() == [])
    #expect(window.pageDelivered(found: 0, sent: 0, isWritable: true) == .rest)
    #expect(try stored(5) == .rest)
    #expect(room.taken == 0)
  }

  @Test func `a process keeps fresh messages within its bound, and their room comes back`() throws {
    let room = FreshRoom(bytesMax: 3000)
    var kept: [FreshMessage] = []
    for sequence: Int64 in 1...10 {
      if let message = FreshMessage(.sample(sequence, bytes: 744), in: room) { kept.append(message) }
    }
    #expect(kept.map(\.sequence) == [1, 2, 3] && room.taken == 3000)
    kept.removeFirst()
    #expect(room.taken == 2000)
    #expect(FreshMessage(.sample(11, bytes: 745), in: room) == nil)
    #expect(room.taken == 2000)
    kept = []
    #expect(room.taken == 0)
  }

  @Test func `a message without a place, or with too many others, has to be read`() throws {
    let envelope = AppendedEnvelope.sample(1).envelope
    #expect(FreshMessage(AppendedEnvelope(envelope, at: nil), in: room) == nil)
    let place = AppendedPlace(sequence: 1, others: nil)
    #expect(FreshMessage(AppendedEnvelope(envelope, at: place), in: room) == nil)
    #expect(room.taken == 0)
  }

  @Test(arguments: 0..<60) func `in any order of events none is missed, comes twice, or overtakes an accepted one`(
    seed: UInt64
  ) throws {
    var roomy = Self.small
    (roomy.deliveriesMax, roomy.heldMax, roomy.freshMax, roomy.freshBytesMax) = (12, 24, 6, 1000)
    let isRoomy = !seed.isMultiple(of: 3)
    var model = FreshModel(bounds: isRoomy ? roomy : Self.small, seed: seed)
    for _ in 0..<4000 { model.step() }
    model.comeToRest()
    #expect(model.faults == [])
    #expect(model.unseen == [])
    #expect(model.room.taken == 0)
    // The model would find nothing where everything is read.
    #expect(model.directCount > 20 || !isRoomy)
  }
}

extension AppendedEnvelope {
  /// For device 1 of some account.
  static func sample(_ sequence: Int64, seeing others: [Int64]? = [], bytes: Int = 10) -> AppendedEnvelope {
    let address = DeviceAddress(AccountNumber(digits: 14_155_550_101) ?? Self.never(), .master)
    return AppendedEnvelope(
      Envelope(
        destination: address, type: .ciphertext, source: address, relay: nil, timestamp: Timestamp(millis: sequence),
        message: Array(repeating: 0, count: bytes), content: nil,
        fingerprint: Fingerprint(high: 0, low: UInt64(sequence))),
      at: AppendedPlace(sequence: sequence, others: others))
  }

  private static func never() -> AccountNumber { preconditionFailure("a number of a test") }
}
