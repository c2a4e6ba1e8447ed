import NIOCore
import RelayCore

// The steps that ask the peer for something, through the paths that clients' requests take.
extension ProbeWalk {
  /// Whether we are an active peer there, and what the peering covers: each scope's path is asked for nothing that
  /// could exist, and says whether it would have looked.
  mutating func askScopes(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    guard let peering else { return .skipped("not tried without tls") }
    guard peering.status == 200, let status else { throw refusal(peering) }
    guard status.name == credentials.name, status.state == .active else {
      throw .failed(
        "the peer has this relay as \(status.name), \(status.state.rawValue)",
        remedy: "Ask its operator to look at `relay peer list`.")
    }
    var (covered, refused): ([String], [String]) = ([], [])
    for scope in Peer.Scope.allCases {
      if scope == .lookup, status.capabilities?.contains(.lookup) != true { continue }
      let answer = try await ask(Self.question(scope), client)
      if answer.problemKind == .scopeRefused {
        refused.append(scope.rawValue)
      } else {
        covered.append(scope.rawValue)
      }
    }
    openScopes = covered
    let text =
      "active there as \(status.name); open to us: \(covered.isEmpty ? "nothing" : covered.joined(separator: ", "))"
      + (refused.isEmpty ? "" : "; closed: \(refused.joined(separator: ", "))")
    guard !covered.isEmpty else {
      return .warned(text, remedy: "Ask its operator to run `relay peer set \(credentials.name) --scope ...`.")
    }
    return .passed(text)
  }

  /// No path of these names anything: beyond the scope's gate lies a 404.
  private static func question(_ scope: Peer.Scope) -> PeerRequest {
    switch scope {
    case .messages: .put("/v1/federation/messages/-/1/-")
    case .keys: .get("/v1/federation/key/-/1")
    case .directory: .get("/v1/federation/user_count")
    case .lookup: .put("/v1/federation/tokens")
    case .attachments: .get("/v1/federation/attachment/-")
    }
  }

  func askBudget(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    guard status?.capabilities?.contains(.budget) == true else { return .skipped("the peer does not tell budgets") }
    let budgets = try await Self.budgets(ask(.get(Self.budgetPath), client), refusal)
    let low = budgets.filter(\.isLow)
    guard low.isEmpty else {
      return .warned(
        low.map { "\($0.name): \($0.space) of \($0.size) left" }.joined(separator: ", "),
        remedy: "Wait, or ask its operator to raise the limits; `relay peer budget \(peer.name)` shows them all.")
    }
    return .passed("\(budgets.count) budgets, more than a tenth left of each")
  }

  static let budgetPath = "/v1/federation/budget"

  static func budgets(
    _ answer: PeerAnswer, _ refusal: (PeerAnswer) -> ProbeFinding
  ) throws(ProbeFinding) -> [RemainingBudget] {
    guard answer.status == 200 else { throw refusal(answer) }
    do throws(JSONError) {
      return try RemainingBudget.decode(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw refusal(answer)
    }
  }
}

// MARK: - Probe accounts

extension ProbeWalk {
  mutating func drawKey(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    let account = try await theirAccount(client)
    var request = PeerRequest.get("/v2/federation/key/\(account.e164)/*")
    request.answerBytesMax = Self.keysBytesMax
    let answer = try await ask(request, client)
    try demandScope(.keys, answer)
    guard answer.status == 200 else { throw refusal(answer) }
    do throws(JSONError) {
      drawn = try PreKeyCodec.decodeDrawnV2(answer.body.readableBytesUInt8Span.bytes).first
    } catch {
      throw refusal(answer)
    }
    guard drawn?.preKey != nil else {
      throw .failed("the peer's probe account has no key", remedy: "Ask the peer's operator to look at its log.")
    }
    return .passed("a key of the peer's probe account")
  }

  mutating func sendMessage(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    let account = try await theirAccount(client)
    guard let source = plan.source, let device = drawn?.device ?? DeviceID(1) else {
      return .skipped("no probe account")
    }
    let time = clock.now()
    let message = SubmittedMessage(
      type: .ciphertext, device: device, registrationID: drawn.map { Int64($0.registrationID) } ?? 0,
      body: Self.randomBody(), content: nil)
    let body = MessageBundle.encode(Submission(destination: account, messages: [message], timestamp: time))
    let answer = try await ask(.put("/v1/federation/messages/\(source.e164)/1/\(account.e164)", body), client)
    try demandScope(.messages, answer)
    guard (200...299).contains(answer.status) else { throw refusal(answer) }
    sent = time
    return .passed("accepted")
  }

  mutating func askArrival(_ client: PeerClient) async throws(ProbeFinding) -> ProbeFinding {
    let answer = try await askProbe(runs: false, client)
    guard let sent, answer.received.contains(sent) else {
      throw .failed(
        "the peer accepted the message and does not have it",
        remedy: "Ask its operator to look at its log and its store; another test may have fetched it, so try again.")
    }
    return .passed("the peer has stored it")
  }

  /// On connections of its own: the answer takes as long as a walk.
  mutating func askBack() async throws(ProbeFinding) -> ProbeFinding {
    var patient = limits
    patient.requestTimeout = max(limits.requestTimeout, ProbeController.runLimit + .seconds(5))
    let client = try makeClient(patient)
    defer { client.retire() }
    let answer = try await askProbe(runs: true, client)
    guard let steps = answer.steps, !steps.isEmpty else { return .skipped("the peer did not walk back") }
    back = steps
    if let failed = steps.first(where: { $0.outcome == .failed }) {
      guard failed.step != .reach else {
        throw .failed(
          "the peer does not reach this relay",
          remedy: "It tells no more: its operator finds each step in its log. See that this relay serves at"
            + " `federation.url`, and that the peer has that URL.")
      }
      throw .failed(
        "the peer does not reach this relay: \(failed.step.rawValue)",
        remedy: "Its words stand above; see that this relay serves at `federation.url`.")
    }
    return .passed("the peer reaches this relay")
  }

  private mutating func theirAccount(_ client: PeerClient) async throws(ProbeFinding) -> AccountNumber {
    if let account { return account }
    let found = try await askProbe(runs: false, client).account
    account = found
    return found
  }

  private func askProbe(runs: Bool, _ client: PeerClient) async throws(ProbeFinding) -> ProbeAnswer {
    guard status?.capabilities?.contains(.probe) == true else {
      throw .skipped("the peer keeps no probe account: it is a relay of before, or of another make")
    }
    let answer = try await ask(.put(ProbeController.path, ProbeRequest(runs: runs).json), client)
    if answer.status == 404 { throw .skipped("the peer keeps no probe account") }
    if answer.status == 413 {
      let wait = answer.retryAfterSeconds.map { "\($0) s" } ?? "a while"
      throw .skipped("tests were asked for too often", remedy: "Try again in \(wait).")
    }
    guard answer.status == 200 else { throw refusal(answer) }
    do throws(JSONError) {
      return try ProbeAnswer.decode(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw refusal(answer)
    }
  }

  private func demandScope(_ scope: Peer.Scope, _ answer: PeerAnswer) throws(ProbeFinding) {
    guard answer.problemKind == .scopeRefused else { return }
    throw .skipped(
      "the peering does not let us ask for \(scope.rawValue)",
      remedy: "If it should, ask its operator to run `relay peer set \(credentials.name) --scope ...`.")
  }

  private static func randomBody() -> [UInt8] {
    var random = SystemRandomNumberGenerator()
    return (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  private static let keysBytesMax = 64 << 10
}

// MARK: - Asking

extension ProbeWalk {
  func ask(_ request: PeerRequest, _ client: PeerClient) async throws(ProbeFinding) -> PeerAnswer {
    do throws(PeerFailure) {
      return try await client.send(request)
    } catch {
      throw unreachable(error)
    }
  }

  func unreachable(_ failure: PeerFailure) -> ProbeFinding {
    switch failure {
    case .handshake:
      .failed(
        "no answer: \(failure)",
        remedy: "The peer may have refused our certificate: its log says why. Compare clocks, and run `relay ca renew`"
          + " if ours has ended.")
    default: .failed("no answer: \(failure)", remedy: "Ask the peer's operator whether the relay is overloaded.")
    }
  }

  func refusal(_ answer: PeerAnswer) -> ProbeFinding {
    let wait = answer.retryAfterSeconds.map { " for \($0) s" } ?? ""
    return switch (answer.problemKind, answer.status) {
    case (.peerRefused?, _):
      .failed("the peer does not have this relay as an active peer", remedy: "Ask its operator to resume it.")
    case (.sourceRefused?, _):
      .failed(
        "the peer does not let us speak for our probe account",
        remedy: "Another relay lists its number: ask the peer's operator which, and whose name is taken twice.")
    case (_, 413): .failed("the peer refuses us\(wait): a limit is reached", remedy: "Wait, then try again.")
    case (_, 503):
      .failed("the peer cannot answer just now\(wait)", remedy: "Ask the peer's operator to run `relay doctor`.")
    default: .failed("the peer answered \(answer.status)", remedy: "Ask the peer's operator to look at its log.")
    }
  }
}
