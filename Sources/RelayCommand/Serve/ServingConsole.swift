import Federation
import Logging
import Operations
import Relay
import RelayConfiguration
import RelayCore
import Storage
import Waking

/// The console's sources in this process: it shows the same as the commands of the same names.
struct ServingConsole: ConsoleSources {
  private let settings: RelayConfiguration
  private let storage: any Storage
  private let signals: any SignalBus
  private let doctor: DoctorChild
  private let leaves: LeafEnds
  private let logger: Logger

  init(
    _ settings: RelayConfiguration, storage: any Storage, signals: any SignalBus, doctor: DoctorChild, logger: Logger
  ) {
    self.settings = settings
    self.storage = storage
    self.signals = signals
    self.doctor = doctor
    self.logger = logger
    leaves = LeafEnds(addresses: settings.federation.peerAddresses)
  }

  func identity() -> ConsoleIdentity? {
    guard settings.federation.port != nil, let credentials = try? PeerCommand.credentials(settings) else { return nil }
    return ConsoleIdentity(
      words: AuthorityWords(credentials.fingerprint).description, leafExpires: credentials.leafExpires,
      authorityExpires: credentials.authorityExpires)
  }

  // MARK: Peers

  func peers() async throws -> [PeerDescription] {
    let peers = try await storage.peers()
    guard !peers.isEmpty else { return [] }
    let ours = try told { try PeerCommand.credentials(settings).fingerprint }
    let ends = await leaves.ends(of: peers)
    let described = peers.compactMap { KnownPeer($0) }.map { known in
      var peer = PeerDescription(known, ours: ours)
      peer.leafExpires = ends[known.name]
      return peer
    }
    return described.sorted { $0.name.text < $1.name.text }
  }

  func budgets(at peer: RelayName) async throws -> [ConsoleBudget] {
    guard let known = try await known(peer) else { return [] }
    let inquiry = PeerInquiry(
      credentials: try told { try PeerCommand.credentials(settings) }, addresses: settings.federation.peerAddresses)
    do {
      return try await inquiry.budgets(of: known).map {
        ConsoleBudget(name: $0.name, left: $0.space, size: $0.size, perMinute: $0.perMinute)
      }
    } catch {
      throw ConsoleFault("\(error)")
    }
  }

  func walk(to peer: RelayName) async throws -> [ConsoleStep]? {
    guard let known = try await known(peer) else { return nil }
    let source = try await PeerCommand.probeAccount(settings, storage).prepare()
    let probe = PeerProbe(
      credentials: try told { try PeerCommand.credentials(settings) }, addresses: settings.federation.peerAddresses,
      clock: .system)
    let marks = try await storage.peers().filter { $0.name != peer }.flatMap(\.attachmentMarks)
    let routing = PeerProbe.Plan.Routing(
      isOn: settings.federation.routesImplicitly, takenMarks: Set(marks + [settings.attachments.mark]))
    var steps: [ConsoleStep] = []
    for await result in probe.walk(known, PeerProbe.Plan(source: source, routing: routing), within: Self.walkMax) {
      let step = ProbeStep(result)
      steps.append(
        ConsoleStep(
          step: step.step, outcome: step.outcome, text: step.text, remedy: step.remedy,
          milliseconds: step.milliseconds))
    }
    return steps
  }

  func suspend(_ peer: RelayName, because reason: String?) async throws -> Bool {
    try await setState(.suspended, of: peer, PeerSuspension(reason: reason, until: nil))
  }

  func resume(_ peer: RelayName) async throws -> Bool { try await setState(.active, of: peer, nil) }

  private func setState(_ state: Peer.State, of peer: RelayName, _ suspension: PeerSuspension?) async throws -> Bool {
    let isKnown = try await PeerCommand.setState(state, of: peer, storage, suspension) { peer, count in
      logger.notice(
        "contacts that others claim too pass to or from a peer", metadata: ["peer": "\(peer)", "contacts": "\(count)"])
    }
    if isKnown { await signals.publish(.peersChanged) }
    return isKnown
  }

  private func known(_ name: RelayName) async throws -> KnownPeer? {
    guard let peer = try await storage.peers().first(where: { $0.name == name }) else { return nil }
    guard let known = KnownPeer(peer) else {
      throw ConsoleFault("The peer is stored with a CA that cannot be read: remove it and peer anew.")
    }
    return known
  }

  /// Turns the faults of certificate files into words.
  private func told<Value>(_ body: () throws -> Value) throws -> Value {
    do { return try body() } catch { throw ConsoleFault("\(error)") }
  }

  private static let walkMax = Duration.seconds(120)

  // MARK: Queues, pushes, doctor

  func outbox() async throws -> [OutboxUsage] { try await storage.outboxUsage() }

  func retry(_ peer: RelayName) async throws -> Int {
    try await storage.makeDue(for: peer, now: WallClock.system.now())
  }

  func pushHistory(of device: DeviceAddress) async throws -> [ConsoleAttempt]? {
    guard try await storage.account(device.account)?.device(device.device) != nil else { return nil }
    return try await storage.wakeHistory(of: device).map(ConsoleAttempt.init)
  }

  func findings() async -> [ConsoleFinding] { await doctor.findings() }
}

/// When the certificates end that peers present: asked once a minute, however many look.
private actor LeafEnds {
  private let leaves: PresentedLeaves
  private var asking: Task<[RelayName: Timestamp], Never>?
  private var told: (ends: [RelayName: Timestamp], of: Set<RelayName>, at: ContinuousClock.Instant)?

  init(addresses: PeerAddresses) { leaves = PresentedLeaves(addresses: addresses, timeout: .seconds(2)) }

  func ends(of peers: [Peer]) async -> [RelayName: Timestamp] {
    let names = Set(peers.map(\.name))
    if let told, told.of == names, .now - told.at < .seconds(60) { return told.ends }
    let running = asking ?? Task { [leaves] in await leaves.ends(of: peers) }
    asking = running
    let ends = await running.value
    (asking, told) = (nil, (ends, names, .now))
    return ends
  }
}

extension ConsoleAttempt {
  fileprivate init(_ attempt: WakeAttempt) {
    let fault = WakeFault(attempt)
    self.init(
      asked: attempt.asked, provider: attempt.provider?.word,
      sent: attempt.kind.map { $0.rawValue + (attempt.isTest ? " (test)" : "") },
      answer: [attempt.answer, attempt.status.map(String.init)].compactMap(\.self).joined(separator: " "),
      milliseconds: attempt.latency.map { Int64($0 / .milliseconds(1)) }, outcome: attempt.outcome.rawValue,
      fault: fault.map { "\($0.rawValue): \($0.text). \($0.remedy)" })
  }
}
