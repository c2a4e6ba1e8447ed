import NIOCore
import NIOWebSocket
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayClient

/// Frames to messages, messages to whoever takes them, and the pauses between connections: without a network.
@Suite(.tags(.unit)) struct SocketClientReaderTests {
  // MARK: Frames

  private func frame(
    _ opcode: WebSocketOpcode, _ bytes: [UInt8] = [], fin: Bool = true, rsv1: Bool = false, isMasked: Bool = false
  ) -> WebSocketFrame {
    WebSocketFrame(
      fin: fin, rsv1: rsv1, opcode: opcode, maskKey: isMasked ? [1, 2, 3, 4] : nil, data: ByteBuffer(bytes: bytes))
  }

  private func read(_ frames: WebSocketFrame..., bytesMax: Int = 10) -> [FrameReader.Action] {
    var reader = FrameReader(messageBytesMax: bytesMax)
    return frames.map { reader.received($0) }
  }

  /// The code that this client closes with; nil when it does not.
  private func code(_ action: FrameReader.Action?) -> UInt16? {
    if case .fail(let code, _) = action { code } else { nil }
  }

  @Test func `whole messages and joined fragments are delivered, with control frames between`() {
    #expect(read(frame(.text, Array("hé".utf8))) == [.deliver(.text("hé"))])
    #expect(read(frame(.binary)) == [.deliver(.binary([]))])
    #expect(
      read(
        frame(.binary, [1, 2], fin: false), frame(.ping, [9]), frame(.continuation, [3], fin: false), frame(.pong, [8]),
        frame(.continuation, [4]), frame(.binary, [5]))
        == [
          .none, .pong(ByteBuffer(bytes: [9])), .none, .deliver(.pong([8])), .deliver(.binary([1, 2, 3, 4])),
          .deliver(.binary([5])),
        ])
    // A letter may be cut in two.
    let letter = Array("é".utf8)
    #expect(
      read(frame(.text, [letter[0]], fin: false), frame(.continuation, [letter[1]])) == [.none, .deliver(.text("é"))])
  }

  @Test func `a server that breaks the protocol is closed, and not listened to any more`() {
    #expect(code(read(frame(.binary, [1], isMasked: true)).last) == 1002)
    #expect(code(read(frame(.binary, [1], rsv1: true)).last) == 1002)
    #expect(code(read(frame(.continuation, [1])).last) == 1002)
    #expect(code(read(frame(.binary, fin: false), frame(.text)).last) == 1002)
    #expect(code(read(frame(WebSocketOpcode(encodedWebSocketOpcode: 3) ?? .text)).last) == 1002)
    #expect(code(read(frame(.text, [0xFF])).last) == 1007)
    #expect(code(read(frame(.connectionClose, [3])).last) == 1002)
    let after = read(frame(.text, [0xFF]), frame(.binary, [1]), frame(.ping))
    #expect(Array(after.dropFirst()) == [.none, .none])
  }

  @Test func `messages have a bound, in one frame or in many`() {
    #expect(read(frame(.binary, [UInt8](repeating: 1, count: 10))).allSatisfy { code($0) == nil })
    #expect(code(read(frame(.binary, [UInt8](repeating: 1, count: 11))).last) == 1009)
    let part = [UInt8](repeating: 1, count: 6)
    #expect(code(read(frame(.binary, part, fin: false), frame(.continuation, part)).last) == 1009)
  }

  @Test func `a close frame is read with and without its code`() {
    #expect(read(frame(.connectionClose)) == [.closed(code: 1005, reason: "")])
    let payload = [0x03, 0xF4] + Array("Service\u{7}restart".utf8)
    #expect(read(frame(.connectionClose, payload)) == [.closed(code: 1012, reason: "Servicerestart")])
  }

  // MARK: The inbox

  @Test func `offered elements are taken in order, and the bounds ask for a pause`() async throws {
    let inbox = Inbox<Int>(bounds: .init(count: 4, bytes: 100))
    let resumed = Mutex(0)
    inbox.whenRoom { resumed.withLock { $0 += 1 } }
    #expect((1...4).map { inbox.offer($0, bytes: 1) } == [true, true, true, false])
    #expect(try await inbox.next() == 1)
    #expect(resumed.withLock { $0 } == 0, "not for each element")
    #expect(try await inbox.next() == 2)
    #expect(resumed.withLock { $0 } == 1)
    #expect(try await inbox.next() == 3)
    #expect(try await inbox.next() == 4)
    #expect(!inbox.offer(5, bytes: 100))
    #expect(try await inbox.next() == 5)
    #expect(resumed.withLock { $0 } == 2)
  }

  @Test func `an end comes behind what is there, one's own at once`() async throws {
    let inbox = Inbox<Int>(bounds: .init(count: 4, bytes: 100))
    _ = inbox.offer(1, bytes: 1)
    inbox.finish(.lost(reason: "x"))
    #expect(try await inbox.next() == 1)
    for _ in 0..<2 { await #expect(throws: ConnectionEnd.lost(reason: "x")) { try await inbox.next() } }
    let own = Inbox<Int>(bounds: .init(count: 4, bytes: 100))
    _ = own.offer(1, bytes: 1)
    own.finish(.closedHere)
    #expect(try await own.next() == nil)
  }

  @Test func `a reader that waits is woken by an element, the end, or cancellation`() async throws {
    for _ in 0..<200 {
      let inbox = Inbox<Int>(bounds: .init(count: 4, bytes: 100))
      let waiting = Task { try await inbox.next() }
      _ = inbox.offer(1, bytes: 1)
      #expect(try await waiting.value == 1)
      let ending = Task { try await inbox.next() }
      let cancelled = Task { try await inbox.next() }
      cancelled.cancel()
      #expect(try await cancelled.value == nil)
      inbox.finish(.closedHere)
      #expect(try await ending.value == nil)
    }
  }

  @Test func `each element goes to one of those who wait`() async throws {
    let inbox = Inbox<Int>(bounds: .init(count: 4, bytes: 100))
    let sums = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<4 {
        group.addTask {
          var sum = 0
          while let element = try await inbox.next() { sum += element }
          return sum
        }
      }
      for element in 1...1000 { _ = inbox.offer(element, bytes: 1) }
      // Behind the last element: an own end would drop what was not taken.
      try await eventually("all are taken") { inbox.isEmpty }
      inbox.finish(.closedHere)
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(sums.reduce(0, +) == 500_500)
  }

  // MARK: Pauses and ends

  @Test func `pauses grow to their bound, drawn at random, and begin anew`() {
    var backoff = Backoff(first: .seconds(1), max: .seconds(60))
    var most = Greatest()
    #expect(
      (0..<8).map { _ in backoff.next(using: &most) / .seconds(1) }.map { $0.rounded() } == [
        1, 2, 4, 8, 16, 32, 60, 60,
      ])
    for _ in 0..<1000 { #expect(backoff.next() <= .seconds(60)) }
    backoff.reset()
    #expect((backoff.next(using: &most) / .seconds(1)).rounded() == 1)
    #expect(Set((0..<20).map { _ in backoff.next() }).count > 1)
  }

  private struct Greatest: RandomNumberGenerator {
    mutating func next() -> UInt64 { .max }
  }

  @Test func `ends say whether it helps to come back`() {
    #expect(ConnectionEnd.closedByRelay(code: 1000, reason: "OK").isDisplaced)
    #expect(ConnectionEnd.closedByRelay(code: 1012, reason: "").isRestart)
    for code in [1001, 1005, 1011, 1012, 1013] {
      #expect(ConnectionEnd.closedByRelay(code: code, reason: "").isTemporary, "\(code)")
    }
    for code in [1000, 1002, 1008, 4001] {
      #expect(!ConnectionEnd.closedByRelay(code: code, reason: "").isTemporary, "\(code)")
    }
    #expect(ConnectionEnd.lost(reason: "").isTemporary && !ConnectionEnd.closedHere.isTemporary)
  }
}
