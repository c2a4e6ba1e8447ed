import NIOCore
import RelayCore
import SwiftProtobuf
import Synchronization
import TestSupport
import TestTags
import Testing
import WireMessages

@testable import Federation

/// Draws of prekeys that travel together, without a wire.
@Suite(.tags(.unit)) struct KeyBatchTests {
  private static func draw(_ index: Int, _ version: PreKeyVersion = .two) throws -> KeyDraw {
    KeyDraw(
      account: try number("+1415555\(1000 + index)"), devices: index % 2 == 0 ? .all : .one(.master), version: version,
      request: RequestID(bits: UInt64(index)))
  }

  private static func answer(_ bytes: [UInt8], status: Int = 200) -> PeerAnswer {
    PeerAnswer(status: status, entityTag: nil, retryAfterSeconds: nil, body: ByteBuffer(bytes: bytes))
  }

  /// Answers when it is told to, each draw with its own id.
  private final class Peer: Sendable {
    private let state = Mutex((batches: [[KeyDraw]](), waiting: [CheckedContinuation<Void, Never>](), isOpen: false))
    var batches: [Int] { state.withLock { $0.batches.map(\.count) } }

    func send(_ draws: [KeyDraw]) async -> [PeerKeyQueue.Outcome] {
      await withCheckedContinuation { continuation in
        let isOpen = state.withLock { state in
          state.batches.append(draws)
          if !state.isOpen { state.waiting.append(continuation) }
          return state.isOpen
        }
        if isOpen { continuation.resume() }
      }
      return draws.map { .success(.refused(HandOverAnswer(status: Int($0.request?.bits ?? 0)))) }
    }

    func open() {
      let waiting = state.withLock { state in
        defer { (state.waiting, state.isOpen) = ([], true) }
        return state.waiting
      }
      for continuation in waiting { continuation.resume() }
    }
  }

  @Test func `draws that come while others are under way travel together, and each has its own answer`() async throws {
    let peer = Peer()
    let queue = PeerKeyQueue(waitingMax: 1000) { await peer.send($0) }
    let deadline = ContinuousClock.now + .seconds(300)
    let statuses = try await withThrowingTaskGroup(of: (Int, KeyDrawAnswer).self) { group in
      group.addTask { (1, try await queue.answer(to: Self.draw(1), until: deadline)) }
      try await eventually("the first is under way") { peer.batches == [1] }
      for index in 2...200 {
        group.addTask { (index, try await queue.answer(to: Self.draw(index), until: deadline)) }
      }
      try await eventually("the others wait") { queue.waitingCount == 199 }
      peer.open()
      return try await group.reduce(into: [Int: KeyDrawAnswer]()) { $0[$1.0] = $1.1 }
    }
    #expect(peer.batches == [1, KeyBatchCodec.drawsMax, 199 - KeyBatchCodec.drawsMax])
    for index in 1...200 { #expect(statuses[index] == .refused(HandOverAnswer(status: index))) }
  }

  @Test func `one that gives up takes no other along, and what waits is taken back`() async throws {
    let peer = Peer()
    let queue = PeerKeyQueue(waitingMax: 2) { await peer.send($0) }
    let far = ContinuousClock.now + .seconds(300)
    let first = Task { try await queue.answer(to: Self.draw(1), until: far) }
    try await eventually("the first is under way") { peer.batches == [1] }
    let second = Task { try await queue.answer(to: Self.draw(2), until: far) }
    try await eventually("one waits") { queue.waitingCount == 1 }
    await #expect(throws: PeerFailure.timedOut) { try await queue.answer(to: Self.draw(3), until: .now) }
    let third = Task { try await queue.answer(to: Self.draw(4), until: far) }
    try await eventually("two wait") { queue.waitingCount == 2 }
    await #expect(throws: PeerFailure.busy) { try await queue.answer(to: Self.draw(5), until: far) }
    second.cancel()
    await #expect(throws: PeerFailure.cancelled) { try await second.value }
    first.cancel()
    await #expect(throws: PeerFailure.cancelled) { try await first.value }
    peer.open()
    #expect(try await third.value == .refused(HandOverAnswer(status: 4)))
    #expect(peer.batches == [1, 1])
  }

  @Test func `draws and answers arrive as they were written`() throws {
    let draws = try [Self.draw(1, .one), Self.draw(2), Self.draw(3)]
    let request = try KeyBatchCodec.request(for: draws)
    #expect(try KeyBatchCodec.decode(request.body ?? []).map { try $0.get() } == draws)
    let bytes = try KeyBatchCodec.encode([
      .success([FixedDispenser.keys[1]]), .success(FixedDispenser.keys),
      .failure(
        Problem(.rateLimited, retryAfter: .milliseconds(1500))),
    ])
    let answers = try KeyBatchCodec.read(Self.answer(bytes), to: draws)
    #expect(
      answers == [
        .success(.drawn([FixedDispenser.keys[1]])), .success(.drawn(FixedDispenser.keys)),
        .success(.refused(HandOverAnswer(status: 413, retryAfterSeconds: 2))),
      ])
  }

  @Test func `an answer without exactly one entry for each draw is none`() throws {
    let draws = try [Self.draw(1), Self.draw(2)]
    let one = try KeyBatchCodec.encode([.success(FixedDispenser.keys)])
    for bytes in [[], one, one + one + one, [1], [0x0A, 5, 1], [0x0A, 0, 0x0A, 2, 0x22]] as [[UInt8]] {
      #expect(throws: PeerFailure.unreadable) { try KeyBatchCodec.read(Self.answer(bytes), to: draws) }
    }
    // Two bytes each could become a hundred of memory.
    let empty = [[UInt8]](repeating: [0x22, 0], count: 500).flatMap(\.self)
    let crowd: [UInt8] = [0x0A, 0xE8, 0x07] + empty + [0x0A, 0]
    #expect(throws: PeerFailure.unreadable) { try KeyBatchCodec.read(Self.answer(crowd), to: draws) }
  }

  @Test func `keys that cannot be read fail their own draw alone`() throws {
    func entry(_ change: (inout Relay_KeyBatchAnswer.Answer) -> Void) -> Relay_KeyBatchAnswer.Answer {
      var device = Relay_KeyBatchAnswer.Device()
      device.device = 1
      device.preKey.publicKey = "public"
      var entry = Relay_KeyBatchAnswer.Answer()
      (entry.status, entry.identityKey, entry.devices) = (200, "identity", [device])
      change(&entry)
      return entry
    }
    let changes: [(inout Relay_KeyBatchAnswer.Answer) -> Void] = [
      { $0.identityKey = "" }, { $0.devices = [] }, { $0.devices[0].device = 0 }, { $0.devices[0].clearPreKey() },
      { $0.devices[0].preKey.id = -1 }, { $0.devices[0].preKey.publicKey = "" },
      { $0.devices[0].registrationID = 1 << 40 }, { $0.devices[0].signedPreKey.publicKey = "no signature" },
      { $0.identityKey = String(repeating: "a", count: WireLimits.keyTextBytesMax + 1) },
    ]
    for change in changes {
      var message = Relay_KeyBatchAnswer()
      message.answers = [entry(change), entry { _ in }]
      let answers = try KeyBatchCodec.read(
        Self.answer(try message.serializedBytes()), to: [Self.draw(1), Self.draw(2)])
      #expect(answers.first == .failure(.unreadable))
      let shown = DrawnPreKey(
        device: .master, registrationID: 0, identityKey: "identity", preKey: PreKey(keyID: 0, publicKey: "public"))
      #expect(answers.last == .success(.drawn([shown])))
    }
  }

  @Test func `what has no room in an answer is put off`() throws {
    let text = String(repeating: "a", count: WireLimits.keyTextBytesMax)
    let many = try (1...100).map { index in
      DrawnPreKey(
        device: try #require(DeviceID(index)), registrationID: 1, identityKey: text,
        preKey: PreKey(keyID: 1, publicKey: text),
        signedPreKey: SignedPreKey(keyID: 1, publicKey: text, signature: text))
    }
    let draws = try (0..<KeyBatchCodec.drawsMax).map { try Self.draw($0 + 1) }
    let bytes = try KeyBatchCodec.encode(draws.map { _ in .success(many) })
    #expect(bytes.count <= KeyBatchCodec.answerBytesMax)
    let answers = try KeyBatchCodec.read(Self.answer(bytes), to: draws)
    #expect(answers.first == .success(.drawn(many)))
    #expect(answers.last == .success(.refused(HandOverAnswer(status: 503, retryAfterSeconds: 1))))
  }

  @Test func `a capability that was refused is not believed for a minute, and no other is lost`() {
    var capabilities = PeerCapabilities()
    let start = ContinuousClock.now
    capabilities.told([.batches, .orderedBatches, .keyBatches, .lookup], at: start)
    capabilities.refused([.keyBatches], at: start)
    #expect(capabilities.look(at: start + .seconds(59)).known == [.batches, .orderedBatches, .lookup])
    capabilities.refused([.batches, .orderedBatches], at: start + .seconds(30))
    #expect(capabilities.look(at: start + .seconds(60)).known == [.keyBatches, .lookup])
    #expect(capabilities.look(at: start + .seconds(90)).known == [.batches, .orderedBatches, .keyBatches, .lookup])
  }
}
