import NIOCore
import NIOPosix
import RelayCore
import X509

/// One walk: what its steps found out, for the steps behind them. How each of them asks the peer stands in
/// `ProbeWalk+Requests`.
struct ProbeWalk: Sendable {
  let peer: KnownPeer
  let plan: PeerProbe.Plan
  let credentials: FederationCredentials
  let clock: WallClock
  let limits: PeerLimits

  /// Of the peer's listener, leaf first.
  var chain: [Certificate] = []
  /// What the peer answers to `GET /v1/federation/peering`; nil until `tls` has passed.
  var peering: PeerAnswer?
  /// nil where the answer is none.
  var status: PeeringStatus?
  /// The peer's probe account, and the device of it that a key was drawn of.
  var account: AccountNumber?
  var drawn: DrawnPreKey?
  /// The time of the message that was sent.
  var sent: Timestamp?
  /// What the peer found on its way to us.
  var back: [ProbeResult] = []

  init(
    peer: KnownPeer, plan: PeerProbe.Plan, credentials: FederationCredentials, clock: WallClock, limits: PeerLimits
  ) {
    self.peer = peer
    self.plan = plan
    self.credentials = credentials
    self.clock = clock
    self.limits = limits
  }

  func run(began: (PeerProbe.Step) -> Void, report: (ProbeResult) -> Void) async {
    var walk = self
    var outcomes: [PeerProbe.Step: ProbeResult.Outcome] = [:]
    let client: PeerClient
    do {
      client = try PeerClient(
        endpoint: peer.endpoint, authorities: peer.authorities, credentials: credentials, limits: limits,
        accepts: { [peer] in peer.fault(of: $0) })
    } catch {
      return report(
        ProbeResult(
          step: .tls, .failed("our certificate cannot be used: \(error)", remedy: "Run `relay ca issue`."),
          duration: .zero))
    }
    defer { client.retire() }
    for step in plan.steps {
      began(step)
      let start = ContinuousClock.now
      let finding = await walk.find(step, outcomes, client)
      for result in walk.back { report(result) }
      walk.back = []
      outcomes[step] = finding.outcome
      report(ProbeResult(step: step, finding, duration: .now - start))
    }
  }

  private mutating func find(
    _ step: PeerProbe.Step, _ outcomes: [PeerProbe.Step: ProbeResult.Outcome], _ client: PeerClient
  ) async -> ProbeFinding {
    if let missing = step.needs.first(where: { outcomes[$0] == .failed || outcomes[$0] == .skipped }) {
      return .skipped("not tried without \(missing.rawValue)")
    }
    do throws(ProbeFinding) {
      return try await perform(step, client)
    } catch {
      return error
    }
  }

  private mutating func perform(_ step: PeerProbe.Step, _ client: PeerClient) async throws(ProbeFinding)
    -> ProbeFinding
  {
    switch step {
    case .dns: try await resolve()
    case .tcp: try await connect()
    case .tls: try await shakeHands(client)
    case .certificate: try judgeDates()
    case .clock: try await compareClocks(client)
    case .version: judgeVersion()
    case .authorisation: try await askScopes(client)
    case .budget: try await askBudget(client)
    case .prekeys: try await drawKey(client)
    case .message: try await sendMessage(client)
    case .arrival: try await askArrival(client)
    case .back: try await askBack()
    }
  }
}

// MARK: - The connection

extension ProbeWalk {
  private func resolve() async throws(ProbeFinding) -> ProbeFinding {
    let endpoint = peer.endpoint
    let remedy = "Check the peer's URL and this host's resolver."
    let found = await TimeLimit.run(Self.resolveTimeout) { () -> Result<String, ProbeFinding> in
      do {
        // getaddrinfo blocks: on NIO's pool for that, never on an event loop.
        let address = try await NIOThreadPool.singleton.runIfActive {
          try SocketAddress.makeAddressResolvingHost(endpoint.host, port: endpoint.port)
        }
        return .success(address.ipAddress ?? endpoint.host)
      } catch {
        return .failure(.failed("\(endpoint.host) has no address: \(error)", remedy: remedy))
      }
    }
    guard let found else { throw .failed("\(endpoint.host): the resolver does not answer", remedy: remedy) }
    return .passed(try found.get())
  }

  private func connect() async throws(ProbeFinding) -> ProbeFinding {
    let endpoint = peer.endpoint
    do {
      let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(TimeAmount(limits.connectTimeout)).connect(host: endpoint.host, port: endpoint.port).get()
      channel.close(promise: nil)
    } catch {
      throw .failed(
        "\(endpoint) cannot be connected to: \(PeerFailure(error))",
        remedy: "Check that the peer runs, and firewalls on the way.")
    }
    return .passed("port \(endpoint.port) is open")
  }

  /// First theirs, before anything of ours is shown; then both, by a request.
  private mutating func shakeHands(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    do {
      chain = try await CertificateProbe.presentedChain(at: peer.endpoint, timeout: limits.connectTimeout)
    } catch {
      throw .failed("\(error)", remedy: "Check that the peer's URL leads to its federation listener.")
    }
    do throws(ChainFault) {
      let authority = peer.authority(of: chain[0]) ?? peer.authority
      try await ChainCheck(role: .server(peer.endpoint), now: clock.now()).verify(chain[0], by: authority)
      if let fault = peer.fault(of: chain[0]) { throw fault }
    } catch {
      throw .failed("\(error)", remedy: Self.remedy(error))
    }
    let answer = try await ask(.get(PeeringService.path), client)
    peering = answer
    // What cannot be decoded is judged by its status.
    status = try? PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes)
    return .passed("its certificate proves \(peer.name), and it accepted ours")
  }

  private static func remedy(_ fault: ChainFault) -> String {
    switch fault {
    case .expired: "The peer has to run `relay ca renew`; if its certificate is new, check this host's clock."
    case .notYetValid: "Compare the clocks of both hosts."
    case .unknownAuthority: "If the peer has a new CA, remove it and peer anew; else something stands between you."
    case .revoked: "The peer has to run `relay ca issue`; if it did, another host still uses the former leaf."
    default: "The peer has to run `relay ca issue` with the right `name` and `federation.url`."
    }
  }

  private static let resolveTimeout = Duration.seconds(5)
}

// MARK: - What is judged from what was found

extension ProbeWalk {
  private func judgeDates() throws(ProbeFinding) -> ProbeFinding {
    guard let leaf = chain.first else { return .skipped("the peer showed no certificate") }
    let renew = "`relay ca renew`"
    let ends: [(whose: String, end: Timestamp, remedy: String)] = [
      ("theirs", leaf.validUntil, "The peer has to run \(renew)."),
      ("ours", credentials.leafExpires, "Run \(renew)."),
      ("their CA", peer.authorityExpires, "The peer has to begin a new CA: `relay ca rollover begin`."),
      ("our CA", credentials.authorityExpires, "Begin a new CA: `relay ca rollover begin`."),
    ]
    let text = ends.map { "\($0.whose) \(Self.days(from: clock.now(), to: $0.end))" }.joined(separator: ", ")
    if let ended = ends.first(where: { $0.end <= clock.now() }) { throw .failed(text, remedy: ended.remedy) }
    if let near = ends.first(where: { $0.end <= clock.now().adding(Self.nearEnd) }) {
      return .warned(text, remedy: near.remedy)
    }
    return .passed(text)
  }

  private static func days(from now: Timestamp, to end: Timestamp) -> String {
    let millis = end.millis - now.millis
    return millis < 0 ? "ended \(end.text)" : "\(millis / Timestamp.millisPerDay) days"
  }

  /// Asks once more, over the connection that is there: the shorter the way, the better the comparison.
  private func compareClocks(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    let start = clock.now()
    let answer = try await ask(.get(PeeringService.path), client)
    let end = clock.now()
    // As above; a relay of before tells no time.
    guard let theirs = (try? PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes))?.time else {
      return .skipped("the peer does not tell its time")
    }
    // Half of the way there and back is what cannot be told from a difference.
    let ahead = theirs.millis - (start.millis + end.millis) / 2
    let apart = abs(ahead)
    let text =
      apart < 1000
      ? "\(apart) ms apart" : "the peer's clock is \(apart / 1000) s \(ahead > 0 ? "ahead of" : "behind") ours"
    let remedy = "Compare both hosts with a time server: certificates, limits and retention go by the clock."
    if apart > Self.apartMillisMax { throw .failed(text, remedy: remedy) }
    return apart > Self.apartMillisGood ? .warned(text, remedy: remedy) : .passed(text)
  }

  private func judgeVersion() -> ProbeFinding {
    guard let status, let version = status.version else {
      return .skipped("the peer tells no version: it speaks what the protocol's reference says, and no more")
    }
    let known = status.capabilities ?? []
    let missing = PeerCapability.allCases.filter { !known.contains($0) }.map(\.rawValue)
    let text = "version \(version)" + (missing.isEmpty ? "" : ", without \(missing.joined(separator: ", "))")
    guard version <= PeeringStatus.protocolVersion else {
      return .warned(text, remedy: "The peer is newer than this relay: plan an update.")
    }
    return .passed(text)
  }

  private static let nearEnd = Duration.seconds(30 * 86_400)
  private static let apartMillisGood: Int64 = 30_000
  private static let apartMillisMax: Int64 = 300_000
}
