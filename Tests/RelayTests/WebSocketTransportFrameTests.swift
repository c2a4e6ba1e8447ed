import NIOCore
import TestSupport
import TestTags
import Testing

@testable import RelayHTTP

/// The transport's parts that know no network: frames, limits and times.
@Suite(.tags(.unit)) struct WebSocketTransportFrameTests {
  private let max = 100_000

  /// The events that come out of `bytes`, cut into pieces of these sizes, over and over.
  private func events(_ bytes: [UInt8], cut sizes: [Int] = [Int.max], max: Int? = nil) -> [String] {
    var reader = FrameReader(messageBytesMax: max ?? self.max)
    var (events, rest, turn): ([String], ArraySlice<UInt8>, Int) = ([], bytes[...], 0)
    while !rest.isEmpty {
      var piece = ByteBuffer(bytes: rest.prefix(sizes[turn % sizes.count]))
      rest = rest.dropFirst(sizes[turn % sizes.count])
      turn += 1
      while let event = reader.next(&piece) {
        events.append(shown(event))
        switch event {
        case .broken, .closed: return events
        default: break
        }
      }
      if piece.readableBytes > 0 { events.append("left \(piece.readableBytes)") }
    }
    if reader.isInMidst { events.append("in the midst") }
    return events
  }

  private func shown(_ event: FrameReader.Event) -> String {
    switch event {
    case .message(.text(let text)): "text " + String(buffer: text)
    case .message(.binary(let bytes)): "binary \(Array(bytes.readableBytesView).hashValue) \(bytes.readableBytes)"
    case .fragment(let count): "fragment \(count)"
    case .ping(let payload): "ping " + String(buffer: payload)
    case .pong: "pong"
    case .closed(let code): "closed \(code.map(String.init) ?? "without a code")"
    case .broken(let close): "broken \(close.code)"
    }
  }

  private func frame(_ opcode: UInt8, _ text: String, isFinal: Bool = true) -> [UInt8] {
    RawSocket.frame(opcode, Array(text.utf8), isFinal: isFinal)
  }

  @Test func `messages, fragments and control frames among them come in order, however the bytes are cut`() {
    let binary = (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* 17) }
    let bytes =
      frame(1, "whole") + frame(1, "in ", isFinal: false) + frame(9, "ping") + frame(0, "three ", isFinal: false)
      + frame(10, "") + frame(0, "parts") + frame(1, "") + RawSocket.frame(2, binary)
      + RawSocket.frame(2, Array(binary.prefix(126)), mask: [0, 255, 1, 128]) + RawSocket.frame(8, [0x03, 0xE8])
    let whole = events(bytes)
    #expect(
      whole.filter { !$0.hasPrefix("binary") } == [
        "text whole", "fragment 3", "ping ping", "fragment 6", "pong", "text in three parts", "text ", "closed 1000",
      ])
    #expect(whole.contains("binary \(binary.hashValue) 70000"))
    #expect(whole.contains("binary \(Array(binary.prefix(126)).hashValue) 126"))
    for sizes in [[1], [2], [3, 1], [7], [13, 2, 5], [1024], [65_537]] { #expect(events(bytes, cut: sizes) == whole) }
    var random = SystemRandomNumberGenerator()
    for _ in 0..<20 {
      let sizes = (0..<50).map { _ in Int.random(in: 1...2000, using: &random) }
      #expect(events(bytes, cut: sizes) == whole, "\(sizes)")
    }
  }

  @Test func `frames that RFC 6455 forbids are refused as soon as they show`() {
    let refused: [([UInt8], Int)] = [
      (RawSocket.frame(1, [65], mask: nil), 1002), ([0x81, 0x01], 1002),  // unmasked
      ([0xC1], 1002), ([0xA1], 1002), ([0x91], 1002),  // reserved bits
      ([0x83], 1002), ([0x87], 1002), ([0x8B], 1002), ([0x8F], 1002),  // unknown opcodes
      ([0x09, 0x80], 1002), ([0x08, 0x80], 1002),  // fragmented control frames
      ([0x89, 0xFE], 1002), ([0x8A, 0xFF], 1002),  // long ones
      (frame(0, "no beginning"), 1002), ([0x80, 0x80], 1002),
      (frame(1, "a", isFinal: false) + frame(1, "b"), 1002), (frame(2, "a", isFinal: false) + [0x82, 0x80], 1002),
      (RawSocket.frame(8, [3]), 1002), (RawSocket.frame(8, [0x03, 0xED]), 1002), (RawSocket.frame(8, [0, 1]), 1002),
      (RawSocket.frame(8, [0x03, 0xE8, 0xFF]), 1007),
      (RawSocket.frame(1, [0xFF]), 1007), (RawSocket.frame(1, [0xED, 0xA0, 0x80]), 1007),
      (RawSocket.frame(1, [0xE2, 0x82], isFinal: false) + RawSocket.frame(0, [0x28]), 1007),
    ]
    for (bytes, code) in refused {
      #expect(events(bytes).last == "broken \(code)", "\(bytes)")
      #expect(events(bytes, cut: [1]).last == "broken \(code)", "\(bytes)")
    }
    // Text may be cut within a character.
    #expect(
      events(RawSocket.frame(1, [0xE2, 0x82], isFinal: false) + RawSocket.frame(0, [0xAC])) == ["fragment 2", "text €"])
    #expect(events(RawSocket.frame(8, [])) == ["closed without a code"])
  }

  @Test func `a frame that is too large is refused by its head alone`() {
    let refused: [[UInt8]] = [
      [0x82, 0xFE, 0x03, 0xE9],
      [0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0x03, 0xE9], [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0],
      [0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
      RawSocket.frame(2, [UInt8](repeating: 1, count: 600), isFinal: false) + [0x80, 0xFE, 0x01, 0x91],
    ]
    for bytes in refused { #expect(events(bytes, max: 1000).last == "broken 1009", "\(bytes.prefix(12))") }
    let full =
      RawSocket.frame(2, [UInt8](repeating: 1, count: 600), isFinal: false)
      + RawSocket.frame(0, [UInt8](repeating: 1, count: 400))
    #expect(events(full, max: 1000).last?.hasSuffix(" 1000") == true)
  }

  @Test func `random bytes come to an end or to a refusal`() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<3000 {
      var bytes = (0..<Int.random(in: 1...300)).map { _ in UInt8.random(in: 0...255, using: &random) }
      // Half of them begin as a frame might.
      if Bool.random() { bytes.replaceSubrange(0..<min(2, bytes.count), with: [0x81, 0x80 | bytes[0] & 0x7F]) }
      let sizes = (0..<5).map { _ in Int.random(in: 1...40, using: &random) }
      #expect(events(bytes, cut: sizes) == events(bytes), "\(bytes) \(sizes)")
    }
  }

  @Test func `a bucket lets a burst through, then so many each second, and never more than the burst`() {
    let start = NIODeadline.now()
    var pace = SocketPace(limits(burst: 5, perSecond: 2), SocketTimes(), now: start)
    let after = { (pace: inout SocketPace, seconds: Int64) in
      let now = start + .seconds(seconds)
      var count = 0
      while count < 100, pace.charge(now: now) { count += 1 }
      return count
    }
    #expect(after(&pace, 0) == 5)
    #expect(after(&pace, 1) == 2)
    #expect(after(&pace, 2) == 2)
    #expect(after(&pace, 1000) == 5)
    #expect(after(&pace, 1000) == 0)
  }

  @Test func `a client that sends nothing, never ends a message or takes nothing is cut off`() {
    let start = NIODeadline.now()
    let at = { (seconds: Int64) in start + .seconds(seconds) }
    var pace = SocketPace(limits(idle: .seconds(90)), SocketTimes(), now: start)
    #expect(pace.look(sent: 0, waiting: 0, now: at(89)) == .fine)
    pace.received(isInMidst: false, now: at(80))
    #expect(pace.look(sent: 0, waiting: 0, now: at(169)) == .fine)
    #expect(pace.look(sent: 0, waiting: 0, now: at(170)) == .close(.idle, .idle))

    pace = SocketPace(limits(idle: .seconds(3600)), SocketTimes(), now: start)
    pace.received(isInMidst: true, now: at(1))
    pace.received(isInMidst: true, now: at(60))
    #expect(pace.look(sent: 0, waiting: 0, now: at(60)) == .fine)
    pace.messageEnded()
    pace.received(isInMidst: true, now: at(60))
    #expect(pace.look(sent: 0, waiting: 0, now: at(100)) == .fine)
    #expect(pace.look(sent: 0, waiting: 0, now: at(120)) == .close(.idle, .idle))

    pace = SocketPace(limits(idle: .seconds(3600)), SocketTimes(), now: start)
    #expect(pace.look(sent: 100, waiting: 100, now: at(1)) == .fine)
    #expect(pace.look(sent: 200, waiting: 190, now: at(30)) == .fine, "ten bytes were taken")
    #expect(pace.look(sent: 300, waiting: 290, now: at(59)) == .fine)
    #expect(pace.look(sent: 300, waiting: 0, now: at(60)) == .fine, "all were taken")
    #expect(pace.look(sent: 400, waiting: 100, now: at(61)) == .fine)
    #expect(pace.look(sent: 400, waiting: 100, now: at(90)) == .fine)
    #expect(pace.look(sent: 400, waiting: 100, now: at(91)) == .cut(.stalled))
  }

  private func limits(burst: Int = 10, perSecond: Double = 1, idle: Duration = .seconds(90)) -> SocketLimits {
    SocketLimits(messageBytesMax: 1000, burst: burst, perSecond: perSecond, idle: idle)
  }
}
