import NIOCore
import RelayCore
import SwiftProtobuf
import Synchronization
import TestSupport
import TestTags
import Testing
import WireMessages

@testable import Federation

/// The hand-overs that gather while a batch is under way, and their outcome.
@Suite(.tags(.stores)) struct BatchClientTests {
  @Test func `messages that gather travel together, and each has its own answer`() async throws {
    try await withBatchingPeer { beta, alpha in
      async let first = status(of: 0, beta)
      try await eventually("the first is under way") { alpha.handOvers.count == 1 }
      let refusals: [Int: Relay_BatchAnswer.Answer] = [
        2: .with { $0.status = 404 },
        3: .with {
          $0.status = 409
          $0.missingDevices = [2]
        },
        4: .with {
          $0.status = 410
          $0.staleDevices = [3]
        },
        5: .with {
          $0.status = 413
          $0.retryAfterSeconds = 7
        },
        6: .with { $0.status = 503 },
      ]
      let others = Task {
        try await withThrowingTaskGroup(of: (Int, Problem?).self) { group in
          for index in 1...6 { group.addTask { (index, try await status(of: index, beta)) } }
          return try await group.reduce(into: [Int: Problem]()) { $0[$1.0] = $1.1 }
        }
      }
      try await eventually("six wait") { beta.handOvers.waitingCount(for: try name("alpha")) == 6 }
      alpha.peer.answer(by: answering { refusals[$0] ?? .with { $0.status = 200 } })
      #expect(try await first == nil)
      let problems = try await others.value
      let (two, three) = (try #require(DeviceID(2)), try #require(DeviceID(3)))
      #expect(
        problems == [
          2: Problem(.notFound), 3: .mismatched(missing: [two], extra: []), 4: .stale([three]),
          5: Problem(.rateLimited, retryAfter: .seconds(7)), 6: Problem(.peerUnavailable, retryAfter: .seconds(2)),
        ])
      #expect(try alpha.batches.map(\.count) == [1, 6])
    }
  }

  @Test func `a caller that gives up takes no other along`() async throws {
    try await withBatchingPeer { beta, alpha in
      let impatient = Task { try await status(of: 0, beta) }
      try await eventually("it is under way") { alpha.handOvers.count == 1 }
      async let patient = status(of: 1, beta)
      let waiting = Task { try await status(of: 2, beta) }
      let alphaName = try name("alpha")
      try await eventually("two wait") { beta.handOvers.waitingCount(for: alphaName) == 2 }
      impatient.cancel()
      waiting.cancel()
      #expect(try await impatient.value?.kind == .peerUnavailable)
      #expect(try await waiting.value?.kind == .peerUnavailable)
      #expect(beta.handOvers.waitingCount(for: alphaName) == 1)
      alpha.peer.answer(by: answering { _ in .with { $0.status = 200 } })
      #expect(try await patient == nil)
      // Hand-overs that were taken back did not travel.
      #expect(try alpha.batches == [[0], [1]])
    }
  }

  @Test(arguments: [404, 405])
  func `a peer that turns out to know no batches is handed messages one by one`(status refusal: Int) async throws {
    try await withBatchingPeer { beta, alpha in
      alpha.peer.answer(by: { request in
        if request.path.hasSuffix("/batch") { return .init(status: refusal) }
        return request.path.hasSuffix("/peering") ? Self.capable : .init(status: 200)
      })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let handOvers = try (0..<3).map { HandOver.message(try sample($0), source: try source()) }
      for _ in 0..<2 {
        let answers = await beta.handOvers.requests.sendAll(handOvers, to: peer)
        #expect(answers.answers.map(\.?.status) == [200, 200, 200])
      }
      #expect(alpha.handOvers.filter { $0.path.hasSuffix("/batch") }.count == 1)
      #expect(alpha.handOvers.count == 7)
    }
  }

  @Test func `a malformed answer is no success`() async throws {
    try await withBatchingPeer { beta, alpha in
      alpha.peer.answer(by: { request in
        request.path.hasSuffix("/peering") ? Self.capable : .init(status: 200, body: "no protobuf")
      })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let handOvers = try (0..<3).map { HandOver.message(try sample($0), source: try source()) }
      let unread = await beta.handOvers.requests.sendAll(handOvers, to: peer)
      #expect(unread.failure == .unreadable && unread.answers == [nil, nil, nil])
      // From here on it is not asked so for a while.
      #expect(await beta.handOvers.requests.sendAll(handOvers, to: peer).answers.map(\.?.status) == [200, 200, 200])
    }
  }

  @Test func `an answer of more than was asked for is none, and devices that no account has are not taken over`() throws
  {
    func read(
      _ answers: [Relay_BatchAnswer.Answer], then more: [UInt8] = [], count: Int
    ) throws -> [HandOverAnswer] {
      let message = Relay_BatchAnswer.with { $0.answers = answers }
      let body = ByteBuffer(bytes: try message.serializedBytes() + more)
      return try HandOverAnswer.read(
        PeerAnswer(status: 200, entityTag: nil, retryAfterSeconds: nil, body: body), count: count)
    }
    let one = Relay_BatchAnswer.Answer.with { $0.status = 200 }
    #expect(try read([one, one], count: 2).map(\.status) == [200, 200])
    // A number in the field of the answers is none of them, as protobuf reads it.
    #expect(try read([one, one], then: [0x08, 0x01], count: 2).map(\.status) == [200, 200])
    for (answers, count) in [([one, one, one], 2), ([one], 2), (Array(repeating: .init(), count: 500_000), 2)] {
      #expect(throws: PeerFailure.unreadable) { try read(answers, count: count) }
    }
    for (count, isTaken) in [(100, true), (101, false)] {
      let stale = Relay_BatchAnswer.Answer.with {
        ($0.status, $0.staleDevices) = (410, .init(repeating: 2, count: count))
      }
      #expect((try read([stale], count: 1)[0].devices != nil) == isTaken)
    }
  }

  @Test func `a batch goes on without callers that have waited long enough`() async throws {
    var limits = PeerLimits.patient
    limits.requestTimeout = MachineSpeed.allow(.seconds(20))
    try await withBatchingPeer(limits: limits) { beta, alpha in
      let first = Task { try await status(of: 0, beta) }
      try await eventually("the first is under way") { alpha.handOvers.count == 1 }
      let early = Task { try await status(of: 1, beta) }
      let alphaName = try name("alpha")
      try await eventually("one waits") { beta.handOvers.waitingCount(for: alphaName) == 1 }
      try await Task.sleep(for: MachineSpeed.allow(.seconds(8)))
      let late = Task { try await status(of: 2, beta) }
      try await eventually("two wait") { beta.handOvers.waitingCount(for: alphaName) == 2 }
      let answered = answering { _ in .with { $0.status = 200 } }
      alpha.peer.answer(by: { request in
        // The first alone, and no batch of others.
        let indices = request.path.hasSuffix("/batch") ? try? BatchingPeer.indices(request) : nil
        return indices == nil || indices == [0] ? answered(request) : nil
      })
      #expect(try await first.value == nil)
      #expect(try await early.value?.kind == .peerUnavailable)
      alpha.peer.answer(by: answering { _ in .with { $0.status = 200 } })
      #expect(try await late.value == nil)
      #expect(try alpha.batches == [[0], [1, 2]])
    }
  }

  @Test func `to a peer without batches, different destinations go side by side`() async throws {
    try await withBatchingPeer { beta, alpha in
      alpha.peer.answer(by: { $0.path.hasSuffix("/peering") ? .init(status: 404) : nil })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let handOvers = try [0, 1, 2, 3, 0, 4].map { HandOver.message(try sample($0), source: try source()) }
      async let sent = beta.handOvers.requests.sendAll(handOvers, to: peer)
      try await eventually("four are under way") { alpha.handOvers.count == 4 }
      alpha.peer.answer(by: { _ in .init(status: 200) })
      #expect(await sent.answers.map(\.?.status) == Array(repeating: 200, count: 6))
      #expect(alpha.handOvers.count == 6)
    }
  }

  @Test func `messages that were answered count, whatever becomes of the rest`() async throws {
    var limits = PeerLimits.patient
    limits.requestTimeout = .seconds(2)
    try await withBatchingPeer(limits: limits) { beta, alpha in
      alpha.peer.answer(by: {
        if $0.path.hasSuffix("/peering") { return .init(status: 404) }
        return $0.path.hasSuffix("1") ? nil : .init(status: 200)
      })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let handOvers = try [0, 1, 2, 2, 3].map { HandOver.message(try sample($0), source: try source()) }
      let sent = await beta.handOvers.requests.sendAll(handOvers, to: peer)
      #expect(sent.answers.map(\.?.status) == [200, nil, 200, nil, nil])
      #expect(sent.failure == .timedOut)
      #expect(alpha.handOvers.count == 3)
    }
  }

  @Test func `between relays, a batch arrives as it was sent`() async throws {
    try await withPeers { alpha, beta in
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      #expect(await beta.transport.capabilities(of: peer).contains(.batches))
      let receiptTime = Timestamp(millis: 7)
      let single = Submission(
        destination: try number("+14155550101"), messages: try sample(0).messages, timestamp: receiptTime,
        coverage: .masterDevice)
      let handOvers: [HandOver] = [
        .message(try sample(1), source: try source()), .message(single, source: try source()),
        .receipt(receiptTime, source: try source(), destination: try number("+14155550100")),
      ]
      let sent = await beta.handOvers.requests.sendAll(handOvers, to: peer)
      #expect(sent.answers.map(\.?.isSuccess) == [true, true, true])
      let origin = Origin.peer(try name("beta"), source: try source())
      #expect(alpha.intake.calls.count == 2)
      #expect(alpha.intake.calls.contains(.init(submission: try sample(1), origin: origin)))
      #expect(alpha.intake.calls.contains(.init(submission: single, origin: origin)))
      #expect(alpha.intake.receipts.map(\.timestamp) == [receiptTime])
      // Alone it says as much.
      try await beta.courier.submit(single, from: source(), to: name("alpha"))
      #expect(alpha.intake.calls.last?.submission == single)
    }
  }

  @Test func `a peer that keeps no order is handed one message of a pair at a time`() async throws {
    try await withBatchingPeer { beta, alpha in
      let refused = Relay_BatchAnswer.Answer.with { $0.status = 503 }
      alpha.peer.answer(by: answering { index in index == 0 ? refused : .with { $0.status = 200 } })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      // Two for one destination after each other, in both batches.
      let handOvers = try [0, 1, 0, 1, 2].map { HandOver.message(try sample($0), source: try source()) }
      let sent = await beta.handOvers.requests.sendAll(handOvers, to: peer, .ordered)
      #expect(sent.answers.map(\.?.status) == [503, 200, 503, 200, 200] && sent.failure == nil)
      let batches = try alpha.handOvers.map { try Relay_Batch(serializedBytes: $0.bytes).handOvers.map(\.destination) }
      #expect(batches.map { $0.map { $0 % 10 } } == [[0, 1], [1, 2]])
    }
  }

  @Test func `one pair's failure does not delay another's, to a peer without batches`() async throws {
    try await withBatchingPeer { beta, alpha in
      alpha.peer.answer(by: {
        if $0.path.hasSuffix("/peering") { return .init(status: 404) }
        return .init(status: $0.path.hasSuffix("0") ? 413 : 200)
      })
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let handOvers = try [0, 1, 0, 1, 2].map { HandOver.message(try sample($0), source: try source()) }
      let sent = await beta.handOvers.requests.sendAll(handOvers, to: peer, .ordered)
      #expect(sent.answers.map(\.?.status) == [413, 200, 413, 200, 200] && sent.failure == nil)
      // The hand-over behind the one that was put off was not tried.
      #expect(alpha.handOvers.count { $0.path.hasSuffix("0") } == 1)
    }
  }

  private struct BatchingPeer: Sendable {
    let peer: ScriptedPeer
    /// All but questions for what it can do.
    var handOvers: [ScriptedPeer.Request] { peer.requests.filter { !$0.path.hasSuffix("/peering") } }
    /// The indices of the hand-overs of each request, all of which are batches.
    var batches: [[Int]] { get throws { try handOvers.map(Self.indices) } }

    static func indices(_ request: ScriptedPeer.Request) throws -> [Int] {
      try Relay_Batch(serializedBytes: request.bytes).handOvers.map { Int($0.destination % 10) }
    }
  }

  private static let capable = ScriptedPeer.Answer(
    status: 200, body: #"{"name":"beta","state":"active","capabilities":["batches","telepathy"]}"#)

  /// Runs `body` with beta and a peer that takes batches, and answers none of them at first.
  private func withBatchingPeer(
    limits: PeerLimits = .patient, _ body: @Sendable (TestRelay, BatchingPeer) async throws -> Void
  ) async throws {
    try await withScriptedPeers(["alpha"], limits: limits) { beta, peers in
      peers[0].answer(by: { $0.path.hasSuffix("/peering") ? Self.capable : nil })
      try await body(beta, BatchingPeer(peer: peers[0]))
    }
  }

  /// Single requests with success; each hand-over of a batch by its index, which is the last digit of its destination.
  private func answering(
    _ answer: @escaping @Sendable (Int) -> Relay_BatchAnswer.Answer
  ) -> ScriptedPeer.Rule {
    { request in
      if request.path.hasSuffix("/peering") { return Self.capable }
      guard request.path.hasSuffix("/batch") else { return .init(status: 200) }
      do {
        let batch = try Relay_Batch(serializedBytes: request.bytes)
        let answers = Relay_BatchAnswer.with {
          $0.answers = batch.handOvers.map { answer(Int($0.destination % 10)) }
        }
        return .init(status: 200, bytes: try answers.serializedBytes())
      } catch {
        return .init(status: 500)
      }
    }
  }

  private func sample(_ index: Int) throws -> Submission {
    Submission(
      destination: try number("+1415555010\(index)"),
      messages: [
        SubmittedMessage(type: .ciphertext, device: .master, registrationID: 5, body: [1, 2], content: [UInt8(index)])
      ],
      timestamp: Timestamp(millis: 1_700_000_000_000 + Int64(index)))
  }

  /// - Returns: nil when it was accepted.
  private func status(of index: Int, _ beta: TestRelay) async throws -> Problem? {
    do {
      try await beta.courier.submit(sample(index), from: source(), to: name("alpha"))
      return nil
    } catch let problem as Problem {
      return problem
    }
  }
}
