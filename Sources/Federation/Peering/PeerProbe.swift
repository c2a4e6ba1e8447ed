import NIOCore
import NIOPosix
package import RelayCore
import X509

/// Walks the way to a peer step by step, for `relay peer test`: the first step that fails names the remedy, and the
/// steps behind it are not tried.
package struct PeerProbe: Sendable {
  package enum Step: String, Sendable, CaseIterable {
    case dns, tcp, tls, authorisation, answers
  }

  package struct Result: Sendable, Equatable {
    package let step: Step
    package let isPassed: Bool
    /// What was found.
    package let text: String
    /// nil when the step passed.
    package let remedy: String?
    package let duration: Duration
  }

  private struct Fault: Error {
    let text: String
    let remedy: String
  }

  private let credentials: FederationCredentials
  private let clock: WallClock
  private let limits: PeerLimits

  package init(credentials: FederationCredentials, clock: WallClock, limits: PeerLimits = PeerLimits()) {
    self.credentials = credentials
    self.clock = clock
    self.limits = limits
  }

  /// - Parameter report: called after each step, in order.
  /// - Returns: whether all passed.
  package func run(_ peer: KnownPeer, report: (Result) -> Void) async -> Bool {
    for step in Step.allCases {
      let start = ContinuousClock.now
      do throws(Fault) {
        let text = try await perform(step, peer)
        report(Result(step: step, isPassed: true, text: text, remedy: nil, duration: .now - start))
      } catch {
        report(
          Result(step: step, isPassed: false, text: error.text, remedy: error.remedy, duration: .now - start))
        return false
      }
    }
    return true
  }

  private func perform(_ step: Step, _ peer: KnownPeer) async throws(Fault) -> String {
    switch step {
    case .dns: try await resolve(peer.endpoint)
    case .tcp: try await connect(peer.endpoint)
    case .tls: try await checkCertificate(peer)
    case .authorisation: try await askStatus(peer)
    case .answers: try await askCount(peer)
    }
  }

  private func resolve(_ endpoint: PeerEndpoint) async throws(Fault) -> String {
    do {
      // getaddrinfo blocks: on NIO's pool for that, never on an event loop.
      let address = try await NIOThreadPool.singleton.runIfActive {
        try SocketAddress.makeAddressResolvingHost(endpoint.host, port: endpoint.port)
      }
      return address.ipAddress ?? endpoint.host
    } catch {
      throw Fault(
        text: "\(endpoint.host) has no address: \(error)", remedy: "Check the peer's URL and this host's resolver.")
    }
  }

  private func connect(_ endpoint: PeerEndpoint) async throws(Fault) -> String {
    do {
      let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(TimeAmount(limits.connectTimeout)).connect(host: endpoint.host, port: endpoint.port).get()
      channel.close(promise: nil)
      return "port \(endpoint.port) is open"
    } catch {
      throw Fault(
        text: "\(endpoint) cannot be connected to: \(PeerFailure(error))",
        remedy: "Check that the peer runs, and firewalls on the way.")
    }
  }

  private func checkCertificate(_ peer: KnownPeer) async throws(Fault) -> String {
    let chain: [Certificate]
    do {
      chain = try await CertificateProbe.presentedChain(at: peer.endpoint, timeout: limits.connectTimeout)
    } catch {
      throw Fault(text: "\(error)", remedy: "Check that the peer's URL leads to its federation listener.")
    }
    do throws(ChainFault) {
      try await ChainCheck(role: .server(peer.endpoint), now: clock.now()).verify(chain[0], by: peer.authority)
      guard chain[0].relayName == peer.name else {
        throw ChainFault.wrongName(found: chain[0].relayName, expected: peer.name)
      }
    } catch {
      throw Fault(text: "\(error)", remedy: Self.remedy(error))
    }
    return "proves \(peer.name), until \(chain[0].validUntil.text)"
  }

  private static func remedy(_ fault: ChainFault) -> String {
    switch fault {
    case .expired: "The peer has to run `relay ca renew`; if its certificate is new, check this host's clock."
    case .notYetValid: "Compare the clocks of both hosts."
    case .unknownAuthority: "If the peer has a new CA, remove it and peer anew; else something stands between you."
    default: "The peer has to run `relay ca issue` with the right `name` and `federation.url`."
    }
  }

  private func askStatus(_ peer: KnownPeer) async throws(Fault) -> String {
    let answer = try await ask(PeeringService.path, peer)
    // What cannot be decoded is reported by its status.
    guard answer.status == 200, let status = try? PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes) else {
      throw refusal(answer)
    }
    guard status.name == credentials.name, status.state == .active else {
      throw Fault(
        text: "the peer has this relay as \(status.name), \(status.state.rawValue)",
        remedy: "Ask its operator to look at `relay peer list`.")
    }
    return "the peer has this relay as \(status.name), active"
  }

  private func askCount(_ peer: KnownPeer) async throws(Fault) -> String {
    let answer = try await ask("/v1/federation/user_count", peer)
    // A peering may leave the directory out; that it says so is an answer too.
    if PeeringService.kind(of: answer) == .scopeRefused { return "the peer answers, its directory is not shared" }
    guard answer.status == 200 else { throw refusal(answer) }
    return "the peer answers"
  }

  private func ask(_ path: String, _ peer: KnownPeer) async throws(Fault) -> PeerAnswer {
    do {
      let client = try PeerClient(
        endpoint: peer.endpoint, authority: peer.authority, credentials: credentials, limits: limits)
      defer { client.retire() }
      return try await client.send(.get(path))
    } catch {
      throw Fault(
        text: "no answer: \(PeerFailure(error))",
        remedy: "The peer may have refused our certificate: its log says why. Compare clocks, and run `relay ca renew`"
          + " if ours has expired.")
    }
  }

  private func refusal(_ answer: PeerAnswer) -> Fault {
    switch PeeringService.kind(of: answer) {
    case .peerRefused:
      Fault(text: "the peer does not have this relay as an active peer", remedy: "Ask its operator to resume it.")
    default: Fault(text: "the peer answered \(answer.status)", remedy: "Ask the peer's operator to look at its log.")
    }
  }
}
