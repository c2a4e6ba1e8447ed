import NIOCore
package import RelayCore

/// Asks peers whether they know our next CA, for `relay ca rollover`.
package struct RolloverSurvey: Sendable {
  package enum Finding: Sendable, Equatable {
    case takenUp
    case notYet
    /// The peer's relay does not say whom it trusts: one of before, which takes no statements up.
    case cannotTell
    case silent(reason: String)

    /// For people and for `--json`.
    package var text: String {
      switch self {
      case .takenUp: "taken up"
      case .notYet: "not yet"
      case .cannotTell: "cannot take it up: its relay is too old"
      case .silent(let reason): "no answer: \(reason)"
      }
    }
  }

  private static let askedMax = 16

  private let question: PeerQuestion

  package init(
    credentials: FederationCredentials, addresses: PeerAddresses, limits: PeerLimits = PeerLimits()
  ) {
    question = PeerQuestion(credentials: credentials, addresses: addresses, limits: limits)
  }

  /// - Parameters:
  ///   - peers: those that are asked, at most 16 at a time.
  ///   - fingerprint: SHA-256 of the next CA's public key.
  package func ask(_ peers: [KnownPeer], about fingerprint: [UInt8]) async -> [RelayName: Finding] {
    await withTaskGroup(of: (RelayName, Finding).self) { group in
      var findings: [RelayName: Finding] = [:]
      for (index, peer) in peers.enumerated() {
        if index >= Self.askedMax, let (name, finding) = await group.next() { findings[name] = finding }
        group.addTask { (peer.name, await ask(peer, about: fingerprint)) }
      }
      for await (name, finding) in group { findings[name] = finding }
      return findings
    }
  }

  private func ask(_ peer: KnownPeer, about fingerprint: [UInt8]) async -> Finding {
    do {
      let answer = try await question.ask(.get(PeeringStatus.path), peer)
      guard answer.status == 200 else { return .silent(reason: "it answered \(answer.status)") }
      let status = try PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes)
      guard let authorities = status.authorities else { return .cannotTell }
      return authorities.contains(fingerprint) ? .takenUp : .notYet
    } catch is JSONError {
      return .silent(reason: "its answer cannot be read")
    } catch {
      return .silent(reason: "\(PeerFailure(error))")
    }
  }
}
