import NIOCore
import NIOPosix
import RelayCore
import RelayHTTP
import X509

/// One walk: what its steps found out, for the steps behind them. How each of them asks the peer stands in
/// `ProbeWalk+Requests`.
struct ProbeWalk: Sendable {
  let peer: KnownPeer
  let plan: PeerProbe.Plan
  let credentials: FederationCredentials
  let addresses: PeerAddresses
  let clock: WallClock
  let limits: PeerLimits

  /// The ways to which the peer's URL leads. After `dns` has passed there is at least one. After `tcp` has passed the
  /// first is taken.
  var ways: [PeerWay] = []
  /// Made for the first step that asks something.
  var client: PeerClient?
  /// The chain of the peer's listener, leaf first.
  var chain: [Certificate] = []
  /// The peer's answer to `GET /v1/federation/peering`; nil until `tls` has passed.
  var peering: PeerAnswer?
  /// nil where the answer is none.
  var status: PeeringStatus?
  /// The scopes that are open to us; nil where it was not asked for them.
  var openScopes: [String]?
  /// The peer's probe account, and the device of it that a key was drawn of.
  var account: AccountNumber?
  var drawn: DrawnPreKey?
  /// The time of the message that was sent.
  var sent: Timestamp?
  /// The peer's findings on its way to us.
  var back: [ProbeResult] = []

  init(
    peer: KnownPeer, plan: PeerProbe.Plan, credentials: FederationCredentials, addresses: PeerAddresses,
    clock: WallClock, limits: PeerLimits
  ) {
    self.peer = peer
    self.plan = plan
    self.credentials = credentials
    self.addresses = addresses
    self.clock = clock
    self.limits = limits
  }

  /// - Parameter began: is told of each step, and whether TLS has proven the peer before it.
  func run(began: (PeerProbe.Step, Bool) -> Void, report: (ProbeResult) -> Void) async {
    var walk = self
    var outcomes: [PeerProbe.Step: ProbeResult.Outcome] = [:]
    defer { walk.client?.retire() }
    for step in plan.steps {
      began(step, walk.hasProvenPeer)
      let start = ContinuousClock.now
      let finding = await walk.find(step, outcomes)
      for result in walk.back { report(result) }
      walk.back = []
      outcomes[step] = finding.outcome
      report(ProbeResult(step: step, finding, duration: .now - start, isProven: walk.hasProvenPeer))
    }
  }

  private var hasProvenPeer: Bool { client?.hasProvenPeer ?? false }

  private mutating func find(
    _ step: PeerProbe.Step, _ outcomes: [PeerProbe.Step: ProbeResult.Outcome]
  ) async -> ProbeFinding {
    if let missing = step.needs.first(where: { outcomes[$0] == .failed || outcomes[$0] == .skipped }) {
      return .skipped("not tried without \(missing.rawValue)")
    }
    do throws(ProbeFinding) {
      switch step {
      case .reach: return .skipped("no step of a walk")
      case .dns: return try await resolve()
      case .tcp: return try await connect()
      case .tls: return try await shakeHands()
      case .certificate: return try judgeDates()
      default: return try await perform(step, try preparedClient())
      }
    } catch {
      return error
    }
  }

  private mutating func perform(
    _ step: PeerProbe.Step, _ client: PeerClient
  ) async throws(ProbeFinding) -> ProbeFinding {
    switch step {
    case .reach, .dns, .tcp, .tls, .certificate: .skipped("asks nothing")
    case .clock: try await compareClocks(client)
    case .version: judgeVersion()
    case .authorisation: try await askScopes(client)
    case .implicit: judgeRouting()
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
  private mutating func resolve() async throws(ProbeFinding) -> ProbeFinding {
    do throws(PeerFailure) {
      ways = try await addresses.ways(to: peer.endpoint)
      if let address = ways[0].address { return .passed(address) }
      return .passed(try await addresses.lookUp(peer.endpoint.host)[0])
    } catch .privateAddress {
      throw .failed(
        "\(peer.endpoint) leads to an address that is not a public one",
        remedy: "If that is meant, set `federation.allow-private` to true; else ask the peer's operator for its URL.")
    } catch {
      throw .failed("\(error)", remedy: "Check the peer's URL and this host's resolver.")
    }
  }

  private mutating func connect() async throws(ProbeFinding) -> ProbeFinding {
    let endpoint = peer.endpoint
    var failure = PeerFailure.unreachable(reason: "no address")
    for (place, way) in ways.enumerated() {
      do {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .connectTimeout(TimeAmount(limits.connectTimeout)).connect(host: way.host, port: endpoint.port).get()
        channel.close(promise: nil)
        ways.removeFirst(place)
        return .passed("port \(endpoint.port) is open")
      } catch {
        failure = PeerFailure(error)
      }
    }
    throw .failed(
      "\(endpoint) cannot be connected to: \(failure)", remedy: "Check that the peer runs, and firewalls on the way.")
  }

  private mutating func preparedClient() throws(ProbeFinding) -> PeerClient {
    if let client { return client }
    let made = try makeClient(limits)
    client = made
    return made
  }

  func makeClient(_ limits: PeerLimits) throws(ProbeFinding) -> PeerClient {
    guard let way = ways.first else { throw .skipped("not tried without dns") }
    do {
      return try PeerClient(
        way: way, authorities: peer.authorities, credentials: credentials, limits: limits,
        accepts: { [peer] in peer.fault(of: $0) })
    } catch {
      throw .failed("our certificate cannot be used: \(FaultWords.of(error))", remedy: "Run `relay ca issue`.")
    }
  }

  /// First theirs, before anything of ours is shown; then both, by a request.
  private mutating func shakeHands() async throws(ProbeFinding) -> ProbeFinding {
    let client = try preparedClient()
    do throws(PeerFailure) {
      chain = try await CertificateProbe.presentedChain(by: ways[0], timeout: limits.connectTimeout)
    } catch {
      throw .failed("\(error)", remedy: Self.remedy(error))
    }
    do throws(ChainFault) {
      let authority = peer.authority(of: chain[0]) ?? peer.authority
      try await ChainCheck(role: .server(peer.endpoint), now: clock.now()).verify(chain[0], by: authority)
      if let fault = peer.fault(of: chain[0]) { throw fault }
    } catch {
      throw .failed("\(error)", remedy: Self.remedy(error))
    }
    let answer = try await ask(.get(PeeringStatus.path), client)
    peering = answer
    // An answer that cannot be decoded is judged by its status.
    status = try? PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes)
    return .passed("its certificate proves \(peer.name), and it accepted ours")
  }

  /// The remedy for a handshake that showed no certificate.
  private static func remedy(_ failure: PeerFailure) -> String {
    guard case .unreachable = failure else { return "Check that the peer's URL leads to its federation listener." }
    return "Ask the peer's operator whether a relay process is ready there, and a load balancer passes it connections."
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
    return millis < 0 ? "ended \(end.iso8601)" : "\(millis / Timestamp.millisPerDay) days"
  }

  /// Asks once more, over the connection that is there: the shorter the way, the better the comparison.
  private func compareClocks(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    let start = clock.now()
    let answer = try await ask(.get(PeeringStatus.path), client)
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

  /// How a client of ours that names no relay reaches the peer. No finding here fails a walk: these are the
  /// operators' choices.
  private func judgeRouting() -> ProbeFinding {
    guard let routing = plan.routing else { return .skipped("not asked for") }
    guard routing.isOn else { return .skipped("clients have to name the relay: `federation.implicit` is false") }
    guard peer.peer.policy.routesImplicitly else {
      return .skipped(
        "clients have to name the relay", remedy: "`relay peer set \(peer.name) --implicit on` lets them do without.")
    }
    let contacts =
      peer.isCopied ? "by the copied listing" : peer.isQueried ? "by asking the peer" : nil as String?
    guard let contacts else {
      return .warned(
        "clients that name no relay find none of its numbers",
        remedy: "`relay peer set \(peer.name) --contacts copy` or `query`, with a scope that covers it.")
    }
    let text = "clients that name no relay reach its numbers \(contacts)"
    let needed = [Peer.Scope.keys, .messages, .attachments].map(\.rawValue)
    let closed = openScopes.map { open in needed.filter { !open.contains($0) } } ?? []
    guard closed.isEmpty else {
      return .warned(
        "clients that name no relay find its numbers, and are refused there: closed to us are "
          + closed.joined(separator: ", "),
        remedy: "Ask its operator to run `relay peer set \(credentials.name) --scope ...`.")
    }
    guard let mark = status?.attachmentMark else {
      return .warned(
        "\(text), and no attachments: it does not mark them", remedy: "It is a relay of before: it has to update.")
    }
    guard !routing.takenMarks.contains(mark) else {
      return .warned(
        "\(text), and no attachments: their mark \(mark.value) is another relay's too",
        remedy: "Ask its operator to set `attachments.mark` to another number.")
    }
    return .passed("\(text), and its attachments by their mark \(mark.value)")
  }

  private static let nearEnd = Duration.seconds(30 * 86_400)
  private static let apartMillisGood: Int64 = 30_000
  private static let apartMillisMax: Int64 = 300_000
}
