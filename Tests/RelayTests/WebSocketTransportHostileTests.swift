import Foundation
import NIOCore
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// Clients that mean no good, or vanish.
@Suite(.tags(.unit), .serialized) struct WebSocketTransportHostileTests {
  @Test(arguments: [false, true])
  func `a client that breaks the protocol is told and dropped, and no other notices`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let witness = try await site.open()
      let cases: [([UInt8], Int)] = [
        (RawSocket.frame(1, [65], mask: nil), 1002), (RawSocket.frame(1, [65], reserved: 4), 1002),
        (RawSocket.frame(1, [0xFF, 0xFE]), 1007), ([0x82, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 0], 1009),
        (RawSocket.frame(0, [65]), 1002), (RawSocket.frame(9, [65], isFinal: false), 1002),
      ]
      for (bytes, code) in cases {
        let socket = try await site.open()
        // Bytes behind the refused frame are not looked at.
        try await socket.send(bytes + [UInt8](repeating: 0x81, count: 5000))
        #expect(try await socket.closeCode() == code, "\(bytes)")
        await socket.close()
      }
      #expect(try await site.ends(of: cases.count) == Array(repeating: .malformed, count: cases.count))
      try await witness.sendText("unmoved")
      #expect(try await witness.frame().text == "unmoved")
      await witness.close()
    }
  }

  @Test func `fragments beyond the limit are refused before they are held`() async throws {
    try await TransportSite.with { site in
      let socket = try await site.open()
      let part = [UInt8](repeating: 1, count: 100 << 10)
      try await socket.send(RawSocket.frame(2, part, isFinal: false) + RawSocket.frame(0, part, isFinal: false))
      try await socket.send(Array(RawSocket.frame(0, part, isFinal: false).prefix(10)))
      #expect(try await socket.closeCode() == 1009)
      await socket.close()
    }
  }

  @Test(arguments: [1, 9, 10, 0])
  func `a client that sends more than it may is closed`(opcode: UInt8) async throws {
    let limits = SocketLimits(messageBytesMax: 4096, burst: 20, perSecond: 0.01, idle: .seconds(300))
    try await TransportSite.with(limits: limits) { site in
      let socket = try await site.open()
      var bytes: [UInt8] = []
      if opcode == 0 { bytes += RawSocket.frame(2, [], isFinal: false) }
      for _ in 0..<100 { bytes += RawSocket.frame(opcode, [], isFinal: opcode != 0) }
      try await socket.send(bytes)
      #expect(try await socket.closeCode() == 1008)
      #expect(try await site.ends(of: 1) == [.tooMuch])
      await socket.close()
    }
  }

  @Test func `a client that is silent for too long is closed, and one that pings is not`() async throws {
    let idle = MachineSpeed.allow(.seconds(2))
    let limits = SocketLimits(messageBytesMax: 4096, burst: 1000, perSecond: 100, idle: idle)
    try await TransportSite.with(limits: limits) { site in
      let (silent, lively) = (try await site.open(), try await site.open())
      async let code = silent.closeCode()
      for _ in 0..<20 {
        try await lively.send(RawSocket.frame(9, []))
        #expect(try await lively.frame().opcode == 10)
        try await Task.sleep(for: idle / 8)
      }
      #expect(try await code == 1001)
      #expect(!lively.hasEnded)
      await silent.close()
      await lively.close()
      #expect(try await Set(site.ends(of: 2)) == [.idle, .lost])
    }
  }

  @Test(arguments: [false, true])
  func `a client that reads nothing holds no more than its share, and is cut off`(isSecure: Bool) async throws {
    var times = SocketTimes()
    times.stalled = .seconds(3)
    try await TransportSite.with(isSecure: isSecure, times: times) { site in
      var sockets: [RawSocket] = []
      for _ in 0..<20 {
        let socket = try await site.open()
        try await socket.setReading(false)
        try await socket.sendText("flood")
        sockets.append(socket)
      }
      for _ in 0..<500 {
        // Pings are answered with the latest alone while nothing is taken.
        for socket in sockets where !socket.hasEnded { await ignoringFailure { try await socket.send(ping) } }
        if site.authorizer.ends.count == 20 { break }
        try await Task.sleep(for: .milliseconds(20))
      }
      #expect(try await site.ends(of: 20) == Array(repeating: .stalled, count: 20))
      // The bytes that the kernel took on both sides of each, and the high-water mark.
      #expect(site.authorizer.flooded < 20 * (24 << 20))
      for socket in sockets { await socket.close() }
    }
  }

  @Test(arguments: [false, true])
  func `a client that takes less than it asks for is cut off before it fills the memory`(isSecure: Bool) async throws {
    var times = SocketTimes()
    times.stalled = .seconds(3000)
    try await TransportSite.with(isSecure: isSecure, times: times) { site in
      let socket = try await site.open()
      try await socket.setReading(false)
      let large = RawSocket.frame(2, [UInt8](repeating: 7, count: 250 << 10))
      // Each is sent back, whether there is room or not: 8 MiB, and what the kernels take, are enough.
      for _ in 0..<200 where !socket.hasEnded && site.authorizer.ends.isEmpty {
        await ignoringFailure { try await socket.send(large) }
      }
      #expect(try await site.ends(of: 1) == [.stalled])
      await socket.close()
    }
  }

  @Test func `answers to our requests cost nothing`() async throws {
    let limits = SocketLimits(messageBytesMax: 4096, burst: 20, perSecond: 0.01, idle: .seconds(300))
    try await TransportSite.with(limits: limits) { site in
      let socket = try await site.open()
      for _ in 0..<100 { try await socket.sendText("answer") }
      try await socket.sendText("hello")
      #expect(try await socket.frame().text == "hello")
      await socket.close()
    }
  }

  @Test func `frames from before the client knew of the end reach the session`() async throws {
    try await TransportSite.with { site in
      let socket = try await site.open()
      let frames = ["close", "answer", "answer"].flatMap { RawSocket.frame(1, Array($0.utf8)) }
      try await socket.send(frames)
      #expect(try await socket.closeCode() == 1008)
      try await eventually("both are heard") { site.authorizer.answered == 2 }
      await socket.close()
    }
  }

  @Test func `a client that reads slowly gets everything`() async throws {
    var times = SocketTimes()
    times.stalled = .seconds(20)
    try await TransportSite.with(times: times) { site in
      let socket = try await site.open()
      try await socket.sendText("flood")
      for _ in 0..<5 {
        try await socket.setReading(false)
        try await Task.sleep(for: .milliseconds(300))
        try await socket.setReading(true)
        for _ in 0..<500 { #expect(try await socket.frame().payload.count == 4096) }
      }
      #expect(!socket.hasEnded)
      await socket.close()
    }
  }

  @Test(arguments: [false, true])
  func `random frames, cut anywhere, leave the listener as it was`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for lane in 0..<8 {
          group.addTask { for round in 0..<15 { try await assault(site, seed: lane * 100 + round) } }
        }
        try await group.waitForAll()
      }
      let socket = try await site.open()
      try await socket.sendText("still here")
      #expect(try await socket.frame().text == "still here")
      await socket.close()
      try await eventually("all have ended") { site.sockets.openCount == 0 }
      #expect(site.authorizer.ends.count == site.authorizer.opened)
    }
  }

  @Test(arguments: [false, true])
  func `a thousand connections that come and go leave no descriptor`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let first = try await site.open()
      for _ in 0..<20 {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for number in 0..<50 { group.addTask { try await comeAndGo(site, number % 5) } }
          try await group.waitForAll()
        }
      }
      try await eventually("all are gone") { site.sockets.openCount == 1 }
      try await eventually("no descriptor is left") { try openDescriptors(of: site.port) == 1 }
      #expect(site.authorizer.opened >= 800)
      await first.close()
    }
  }

  private var ping: [UInt8] { RawSocket.frame(9, [UInt8](repeating: 1, count: 125)) }

  /// Random bytes, and frames with random mistakes, over a connection that may break off anywhere.
  private func assault(_ site: TransportSite, seed: Int) async throws {
    var random = SeededGenerator(seed: UInt64(seed))
    let socket = try await site.connect()
    var bytes = RawSocket.request("/socket/")
    for _ in 0..<Int.random(in: 0...20, using: &random) {
      let payload = (0..<Int.random(in: 0...400, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      var frame = RawSocket.frame(
        UInt8.random(in: 0...10, using: &random), payload, isFinal: Bool.random(using: &random),
        mask: Int.random(in: 0...9, using: &random) == 0 ? nil : [1, 2, 3, 4])
      if Int.random(in: 0...9, using: &random) == 0 { frame[0] ^= UInt8.random(in: 0...255, using: &random) }
      bytes += frame
    }
    if Int.random(in: 0...2, using: &random) == 0, !bytes.isEmpty {
      bytes = Array(bytes.prefix(Int.random(in: 0..<bytes.count, using: &random)))
    }
    var rest = bytes[...]
    while !rest.isEmpty, !socket.hasEnded {
      let piece = Array(rest.prefix(Int.random(in: 1...200, using: &random)))
      rest = rest.dropFirst(piece.count)
      await ignoringFailure { try await socket.send(piece) }
    }
    await socket.close()
  }

  /// A client of one of several manners.
  private func comeAndGo(_ site: TransportSite, _ manner: Int) async throws {
    if manner == 0 {
      // Without having asked for anything.
      await (try await site.connect()).close()
      return
    }
    let socket = try await site.open()
    try await socket.sendText("hello")
    #expect(try await socket.frame().text == "hello")
    switch manner {
    case 1:
      try await socket.sendClose(1000)
      try await socket.ended()
    case 2:
      // Half-closed: the relay closes the rest.
      try await socket.finishSending()
      try await socket.ended()
    case 3:
      try await socket.sendText("close")
      #expect(try await socket.closeCode() == 1008)
    default: break
    }
    await socket.close()
  }

  /// The relay may have closed already.
  private func ignoringFailure(_ body: () async throws -> Void) async {
    do {
      try await body()
    } catch {
      // As expected.
    }
  }

  /// Accepted connections of this process at `port`, in whatever state, that are not given back to the kernel.
  private func openDescriptors(of port: Int) throws -> Int {
    // sl local remote state tx:rx tr:when retransmits uid timeout inode ...; addresses in hexadecimal.
    var table = ""
    let file = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/tcp"))
    defer { try? file.close() }  // It was only read.
    while let page = try file.read(upToCount: 1 << 16), !page.isEmpty { table += String(decoding: page, as: UTF8.self) }
    return table.split(separator: "\n").dropFirst().count { line in
      let fields = line.split(separator: " ")
      guard fields.count > 9, Int(fields[1].suffix(4), radix: 16) == port else { return false }
      return fields[3] != "0A" && fields[9] != "0"
    }
  }
}
