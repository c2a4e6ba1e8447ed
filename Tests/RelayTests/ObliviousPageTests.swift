import ChildProcesses
import RelayCore
import TestSupport
import TestTags
import Testing

/// The bounds of pages of outputs (docs/protocol.md, "Oblivious look-up").
@Suite(.tags(.processes)) struct ObliviousPageTests {
  private static let pageMax = ObliviousCodec.outputsPerPage

  /// Outputs that begin with eight times the same digit: no other contact's do but by a chance of one in 2^32.
  private struct Part {
    let digit: UInt64
    let outputs: [ObliviousOutput]

    init(_ digit: UInt64, count: Int, reachesTheEnd: Bool = false) {
      self.digit = digit
      let begin = (0..<8).reduce(0) { bits, _ in bits << 4 | digit } << 32
      var outputs = (0..<count).map { ObliviousOutput(bits: begin + 7 * UInt64($0)) }
      if reachesTheEnd {
        outputs.removeLast()
        outputs.append(ObliviousOutput(bits: begin | 0xFFFF_FFFF))
      }
      self.outputs = outputs
    }

    var prefix: String { String(repeating: String(digit, radix: 16), count: 8) }
    var contacts: [ContactOutput] {
      outputs.enumerated().map { ContactOutput(ContactToken(high: digit << 32 + UInt64($0), low: 0), $1) }
    }
  }

  private struct Page: Equatable {
    var outputs: [ObliviousOutput]
    var next: String?
  }

  private static func page(
    _ relay: RelayProcess, _ caller: TestDevice, _ prefix: String, after: String? = nil
  ) async throws -> Page {
    let place = after.map { "&after=\($0)" } ?? ""
    let answer = try await relay.send(
      "GET", "/v1/directory/oblivious/registered?prefix=\(prefix)\(place)", as: caller)
    #expect(answer.status == 200, "\(answer.text)")
    let text = try #require(answer.object["outputs"] as? String)
    let bytes = try #require(Base64.decode(text))
    let outputs = try stride(from: 0, to: bytes.count, by: ObliviousOutput.byteCount).map { begin in
      try #require(ObliviousOutput(bytes: bytes[begin..<min(bytes.count, begin + ObliviousOutput.byteCount)]))
    }
    let homes = try #require((answer.object["homes"] as? String).flatMap { Base64.decode($0) })
    #expect(homes == [UInt8](repeating: 1, count: outputs.count))
    #expect(answer.object["relays"] as? [String] == (outputs.isEmpty ? [] : ["pages"]))
    return Page(outputs: outputs, next: answer.object["next"] as? String)
  }

  @Test func `a page ends where no more fits or nothing more can come, and none is missed`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let caller = try await relay.register()
      let (one, full, tooMany) = (Part(1, count: 1), Part(2, count: Self.pageMax), Part(3, count: Self.pageMax + 1))
      let toTheEnd = Part(4, count: Self.pageMax, reachesTheEnd: true)
      let contacts = [one, full, tooMany, toTheEnd].flatMap(\.contacts)
      try await site.addOutputs(contacts)
      // A page shows what the process itself has in its directory.
      try await site.listAtPeer("pages", tokens: contacts.map(\.token))
      try await eventually("the contacts are in the directory", within: .seconds(60)) {
        try await relay.directoryEntries() == contacts.count + 1
      }

      let empty = try await Self.page(relay, caller, Part(5, count: 0).prefix)
      #expect(empty == Page(outputs: [], next: nil))
      // One, at the very beginning of its part.
      let single = try await Self.page(relay, caller, one.prefix)
      #expect(single == Page(outputs: one.outputs, next: nil))
      let behindIt = try await Self.page(relay, caller, one.prefix, after: one.outputs[0].cursorText)
      #expect(behindIt == Page(outputs: [], next: nil))

      // Just as many as fit: whether more come, only the next page tells, which is empty.
      let last = try #require(full.outputs.last?.cursorText)
      let whole = try await Self.page(relay, caller, full.prefix)
      #expect(whole == Page(outputs: full.outputs, next: last))
      let behindWhole = try await Self.page(relay, caller, full.prefix, after: last)
      #expect(behindWhole == Page(outputs: [], next: nil))

      // One more than fit.
      let place = tooMany.outputs[Self.pageMax - 1].cursorText
      let first = try await Self.page(relay, caller, tooMany.prefix)
      #expect(first == Page(outputs: Array(tooMany.outputs.prefix(Self.pageMax)), next: place))
      let rest = try await Self.page(relay, caller, tooMany.prefix, after: place)
      #expect(rest == Page(outputs: Array(tooMany.outputs.suffix(1)), next: nil))

      // Full, and nothing can lie behind its last one.
      let end = try #require(toTheEnd.outputs.last?.cursorText)
      let closed = try await Self.page(relay, caller, toTheEnd.prefix)
      #expect(closed == Page(outputs: toTheEnd.outputs, next: nil))
      let behindTheEnd = try await Self.page(relay, caller, toTheEnd.prefix, after: end)
      #expect(behindTheEnd == Page(outputs: [], next: nil))
      #expect(await relay.terminate() == .code(0))
    }
  }
}

extension RelayProcess {
  fileprivate func directoryEntries() async throws -> Int? {
    try await ask("/metrics").text.split(separator: "\n").first { $0.hasPrefix("relay_directory_entries ") }?
      .split(separator: " ").last.flatMap { Int($0) }
  }
}
