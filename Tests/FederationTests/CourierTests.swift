import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The answers to our clients when a request goes to a peer, over real TLS.
@Suite(.tags(.stores)) struct CourierTests {
  @Test func `a message arrives as it was sent`() async throws {
    try await withPeers { alpha, beta in
      let submission = try sample()
      try await beta.courier.submit(submission, from: source(), to: name("alpha"))
      let call = try #require(alpha.intake.calls.first)
      #expect(call.submission == submission)
      #expect(call.origin == .peer(try name("beta"), source: try source()))
    }
  }

  @Test func `the peer's answers pass as the reference, 1.13.4, recommends`() async throws {
    try await withPeers { alpha, beta in
      let two = try #require(DeviceID(2))
      let passing: [Problem] = [
        Problem(.notFound), .mismatched(missing: [two], extra: [.master]), .stale([two]),
        Problem(.rateLimited, retryAfter: .seconds(7)),
      ]
      for problem in passing {
        alpha.intake.refuse(with: problem)
        #expect(try await refusal(beta) == problem)
      }
      for problem in [Problem(.unavailable), Problem(.internalError), Problem(.peerRefused), Problem(.unauthorized)] {
        alpha.intake.refuse(with: problem)
        #expect(try await refusal(beta)?.kind == .peerUnavailable)
      }
    }
  }

  @Test func `keys arrive in both versions as they were drawn`() async throws {
    try await withPeers { _, beta in
      let account = try number("+14155550100")
      let signed = try await beta.courier.preKeys(of: account, devices: .all, version: .two, at: name("alpha"))
      #expect(signed == FixedDispenser.keys)
      let one = try await beta.courier.preKeys(of: account, devices: .one(.master), version: .two, at: name("alpha"))
      #expect(one == [FixedDispenser.keys[0]])
      let bare = try await beta.courier.preKeys(of: account, devices: .all, version: .one, at: name("alpha"))
      #expect(bare.map(\.preKey) == FixedDispenser.keys.prefix(2).map(\.preKey))
      #expect(bare.allSatisfy { $0.signedPreKey == nil })
    }
  }

  @Test func `a receipt arrives as it was sent`() async throws {
    try await withPeers { alpha, beta in
      let timestamp = Timestamp(millis: 1_700_000_000_001)
      let destination = try number("+14155550100")
      try await beta.courier.sendReceipt(for: timestamp, from: source(), to: destination, at: name("alpha"))
      let origin = Origin.peer(try name("beta"), source: try source())
      let receipt = RecordingIntake.Receipt(timestamp: timestamp, destination: destination, origin: origin)
      #expect(alpha.intake.receipts == [receipt])
    }
  }

  @Test func `the URL of a blob is the one that the peer gives`() async throws {
    try await withPeers { alpha, beta in
      let id = try #require(AttachmentID(Int64.max))
      let url = try await beta.courier.attachmentURL(of: id, at: name("alpha"))
      #expect(url == "https://blobs.example/7?signature=a%2Fb&x=1")
      alpha.locator.answer(with: .failure(Problem(.unavailable)))
      let problem = await #expect(throws: Problem.self) {
        try await beta.courier.attachmentURL(of: id, at: name("alpha"))
      }
      #expect(problem?.kind == .peerUnavailable)
    }
  }

  @Test func `an unknown or suspended relay is not found`() async throws {
    try await withPeers { _, beta in
      let unknown = await #expect(throws: Problem.self) {
        try await beta.courier.preKeys(of: number("+14155550100"), devices: .all, version: .one, at: name("nowhere"))
      }
      #expect(unknown?.kind == .notFound)
      #expect(try await beta.storage.setPeerState(.suspended, of: name("alpha")))
      await beta.coordination.publish(.peersChanged)
      try await eventually("beta has heard") { beta.registry.peers.allSatisfy { !$0.isActive } }
      #expect(try await refusal(beta)?.kind == .notFound)
    }
  }

  @Test func `unknown accounts of a peer are not found`() async throws {
    try await withPeers { _, beta in
      let problem = await #expect(throws: Problem.self) {
        try await beta.courier.preKeys(of: number("+14155550199"), devices: .all, version: .one, at: name("alpha"))
      }
      #expect(problem?.kind == .notFound)
    }
  }

  @Test func `a peer that does not answer costs no more than the time-out`() async throws {
    var limits = PeerLimits.patient
    limits.requestTimeout = .seconds(10)
    limits.requestsMax = 1
    try await withPeers(limits: limits) { alpha, beta in
      alpha.intake.hold(true)
      let isAnswered = Mutex(false)
      async let held = {
        defer { isAnswered.withLock { $0 = true } }
        return try await refusal(beta)
      }()
      try await eventually("the first request is under way") { !alpha.intake.calls.isEmpty }
      // The one request that the peer may hold is taken: the next is refused without waiting for it.
      let id = try #require(AttachmentID(7))
      let refused = await #expect(throws: Problem.self) {
        try await beta.courier.attachmentURL(of: id, at: name("alpha"))
      }
      #expect(refused?.kind == .peerUnavailable)
      #expect(!isAnswered.withLock { $0 })
      #expect(try await held?.kind == .peerUnavailable)
      alpha.intake.hold(false)
      try await eventually("the peer serves again") { try await refusal(beta) == nil }
    }
  }

  @Test func `a peer that is away is unavailable`() async throws {
    try await withRelay("beta") { beta in
      try await withRelay("alpha") { alpha in
        let invitation = try await alpha.peering().invite()
        _ = try await beta.peering().accept(invitation.text)
        #expect(try await refusal(beta) == nil)
      }
      #expect(try await refusal(beta)?.kind == .peerUnavailable)
    }
  }

  @Test func `a server that the peer's authority does not vouch for is unavailable`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        // The right address, another CA.
        let peer = Peer(
          name: try name("alpha"), url: alpha.endpoint.text, caCertificate: try TestAuthority("alpha").der,
          state: .active, scopes: Set(Peer.Scope.allCases), added: beta.clock.now())
        #expect(try await beta.storage.savePeer(peer))
        #expect(try await refusal(beta)?.kind == .peerUnavailable)
        #expect(alpha.intake.calls.isEmpty)
      }
    }
  }

  /// Reference 1.13.2: keyed by source and destination, and refused with 503.
  @Test func `a peer's messages are limited`() async throws {
    try await withRelay("alpha", buckets: [.messages: Bucket(size: 2, perMinute: 1)]) { alpha in
      try await withRelay("beta") { beta in
        _ = try await beta.peering().accept(try await alpha.peering().invite().text)
        for time: Int64 in 1...2 {
          try await beta.courier.submit(sample(timestamp: time), from: source(), to: name("alpha"))
        }
        #expect(try await refusal(beta)?.kind == .peerUnavailable)
        #expect(alpha.intake.calls.count == 2)
      }
    }
  }

  @Test func `one connection carries many requests at once`() async throws {
    try await withPeers { alpha, beta in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<64 {
          group.addTask {
            let submission = try sample(timestamp: Int64(index) + 1)
            try await beta.courier.submit(submission, from: source(), to: name("alpha"))
          }
        }
        try await group.waitForAll()
      }
      #expect(Set(alpha.intake.calls.compactMap(\.submission.timestamp)).count == 64)
    }
  }

  private func sample(timestamp: Int64 = 1_700_000_000_000) throws -> Submission {
    Submission(
      destination: try number("+14155550100"),
      messages: [
        SubmittedMessage(type: .preKeyBundle, device: .master, registrationID: 5, body: [1, 2, 3, 4], content: nil),
        SubmittedMessage(
          type: .ciphertext, device: try #require(DeviceID(2)), registrationID: 0, body: nil, content: [255]),
      ],
      timestamp: Timestamp(millis: timestamp))
  }

  /// - Returns: nil when the message was accepted.
  private func refusal(_ relay: TestRelay) async throws -> Problem? {
    do {
      try await relay.courier.submit(sample(), from: source(), to: name("alpha"))
      return nil
    } catch let problem as Problem {
      return problem
    }
  }
}

/// An account's device at the peer that sends.
func source() throws -> DeviceAddress { DeviceAddress(try number("+14155550177"), .master) }
