package import Logging
package import RelayCore
import RelayHTTP
import ServiceLifecycle
import Synchronization

/// The ways to all peers, one each: HTTP clients, breakers, and what each peer can do.
///
/// A peer's client is replaced when its CA or URL changes or our own certificate does, and dropped when it is no
/// active peer any more. A peer that does not answer is asked nothing for a while, and probed until it does
/// (docs/federation.md, "A peer that is away").
package final class PeerTransport: Service {
  let registry: PeerRegistry
  let clock: WallClock
  let limits: PeerLimits
  let store: any PeerStore
  let signals: any SignalBus
  let logger: Logger
  private let identity: FederationIdentity
  private let addresses: PeerAddresses
  private let marks: AttachmentMarks
  private let links = Mutex<[RelayName: PeerLink]>([:])
  /// Links whose breaker has opened; one task each probes them. Bounded by their number: see `PeerLink.State.isProbed`.
  let opened = AsyncStream.makeStream(of: PeerLink.self)
  /// Links of which other processes are to be told; bounded likewise by `isUntold`.
  let untold = AsyncStream.makeStream(of: PeerLink.self)
  /// In 0..<1.
  let random: @Sendable () -> Double

  /// - Parameter attachmentMark: this relay's own, which no peer can have.
  package init(
    identity: FederationIdentity, addresses: PeerAddresses, registry: PeerRegistry, store: any PeerStore,
    signals: any SignalBus,
    limits: PeerLimits = PeerLimits(), attachmentMark: AttachmentMark? = nil, clock: WallClock, logger: Logger,
    random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
  ) {
    self.identity = identity
    self.addresses = addresses
    self.registry = registry
    self.store = store
    self.signals = signals
    self.limits = limits
    self.clock = clock
    self.logger = logger
    self.random = random
    marks = AttachmentMarks(own: attachmentMark, registry: registry, store: store, signals: signals, logger: logger)
    registry.onChange { [weak self] table in self?.tableChanged(table) }
  }

  /// Sends `request`, unless the peer is known not to answer. It goes to the peer as the registry has it now.
  func send(_ request: PeerRequest, to peer: KnownPeer) async throws(PeerFailure) -> PeerAnswer {
    guard let peer = registry.current.byName[peer.name], peer.isActive else { throw .cancelled }
    // No caller waits for the request any more. That tells nothing about the peer.
    if let deadline = request.deadline, deadline <= .now { throw .cancelled }
    let link = link(to: peer.name)
    try link.admit(max: limits.requestsMax)
    defer { link.leave() }
    // A peer that was given little time is not silent for having used it up.
    let isRushed = request.deadline.map { $0 - .now < limits.requestTimeout / 2 } ?? false
    if isYoung(peer), let answer = try await introduce(request, to: peer, on: link, isRushed: isRushed) {
      return answer
    }
    do throws(PeerFailure) {
      return try await perform(request, to: peer, on: link, isRushed: isRushed)
    } catch .retired {
      // Replaced between being looked up and used: nothing was sent.
      return try await perform(request, to: peer, on: link, isRushed: isRushed)
    }
  }

  /// The capabilities of `peer` beyond the protocol's reference; none if the peer tells none. Asks again if the last
  /// answer is old, and waits for the answer if nothing is known.
  func capabilities(of peer: KnownPeer) async -> Set<PeerCapability> {
    let link = link(to: peer.name)
    let (known, asking) = lookAtCapabilities(of: peer, on: link)
    if let known { return known }
    await asking?.value
    return link.state.withLock { $0.capabilities.current }
  }

  /// As `capabilities`, without waiting. - Returns: nil when `peer` has not told since its connection was made.
  func capabilitiesTold(by peer: KnownPeer) -> Set<PeerCapability>? {
    let link = link(to: peer.name)
    _ = lookAtCapabilities(of: peer, on: link)
    return link.state.withLock { $0.capabilities.isTold ? $0.capabilities.current : nil }
  }

  private func lookAtCapabilities(
    of peer: KnownPeer, on link: PeerLink
  ) -> (known: Set<PeerCapability>?, asking: Task<Void, Never>?) {
    link.state.withLock { state in
      let (known, isToAsk) = state.capabilities.look(at: .now)
      // Everybody's question: a caller that goes away does not take the answer from others.
      if isToAsk, state.asking == nil { state.asking = Task { await askCapabilities(of: peer, on: link) } }
      return (known, state.asking)
    }
  }

  private func askCapabilities(of peer: KnownPeer, on link: PeerLink) async {
    let told: Set<PeerCapability>?
    do throws(PeerFailure) {
      let status = PeeringStatus.read(try await send(.get(PeeringStatus.path), to: peer))
      told = status?.capabilities ?? []
      await marks.told(status?.attachmentMark, by: peer.name)
    } catch {
      // The caller goes on without capabilities. Its own request will meet the failure.
      told = nil
    }
    link.state.withLock { state in
      state.capabilities.told(told, at: .now)
      state.asking = nil
    }
  }

  /// `peer` does not have `capabilities`, though it told so: they are not used for a while.
  func forget(_ capabilities: Set<PeerCapability>, of peer: KnownPeer) {
    link(to: peer.name).state.withLock { $0.capabilities.refused(capabilities, at: .now) }
  }

  /// Every client's connections are closed after its last request.
  package func close() {
    for link in links.withLock({ Array($0.values) }) { link.disconnect()?.retire() }
  }

  /// One request, with what is to be learned of it. Not held up by the breaker.
  /// - Parameters:
  ///   - isRushed: whether a time-out says nothing of the peer.
  ///   - forgivesRefusal: whether it says nothing of the peer either that it does not have us.
  func perform(
    _ request: PeerRequest, to peer: KnownPeer, on link: PeerLink, isRushed: Bool = false,
    forgivesRefusal: Bool = false
  ) async throws(PeerFailure) -> PeerAnswer {
    let way = try await way(to: peer, on: link)
    let client = try client(of: peer, by: way, on: link)
    do throws(PeerFailure) {
      let answer = try await client.send(request)
      link.count(nil)
      if !answer.isPeerRefusal { settle(nil, on: link) } else if !forgivesRefusal { settle(.refused, on: link) }
      return answer
    } catch {
      link.count(error)
      logger.debug(
        "request to a peer failed",
        metadata: ["peer": "\(link.name)", "made": "\(request.id)", "reason": "\(error)"])
      if error.isAnswer { settle(nil, on: link) }
      if error.fault == .network { addresses.failed(way) }
      let isForgiven = isRushed && error == .timedOut || forgivesRefusal && error.fault == .certificate
      if let fault = error.fault, !isForgiven { settle(fault, on: link, reason: error) }
      // The connection may be waiting for anything. New requests do not wait behind it.
      if error == .timedOut { link.disconnect(client)?.retire() }
      throw error
    }
  }

  private func way(to peer: KnownPeer, on link: PeerLink) async throws(PeerFailure) -> PeerWay {
    do throws(PeerFailure) {
      return try await addresses.way(to: peer.endpoint)
    } catch {
      link.count(error)
      if let fault = error.fault { settle(fault, on: link, reason: error) }
      throw error
    }
  }

  func link(to name: RelayName) -> PeerLink {
    links.withLock { links in
      if let link = links[name] { return link }
      let link = PeerLink(name)
      links[name] = link
      return link
    }
  }

  /// Brings the links in line with the list of peers.
  private func tableChanged(_ table: PeerTable) {
    let leaf = identity.credentials.leaf
    let gone = links.withLock { links in
      let gone = links.filter { table.byName[$0.key]?.isActive != true }
      for name in gone.keys { links[name] = nil }
      return gone.values
    }
    for link in gone {
      link.state.withLock { $0.isGone = true }
      link.disconnect()?.retire(within: limits.retirement)
      link.end()
    }
    let now = clock.now()
    for peer in table.byName.values where peer.isActive {
      let link = link(to: peer.name)
      let former = link.state.withLock { state in
        // The peer's identity has changed, so the cause of its silence may be gone.
        if let known = state.peer, !known.isReached(as: peer) { state.isProbedAtOnce = true }
        state.peer = peer
        return state.connection.flatMap { $0.isMade(for: peer, as: leaf, by: nil) ? nil : $0.client }
      }
      if let former { link.disconnect(former)?.retire(within: limits.retirement) }
      apply(link.state.withLock { $0.breaker.sharedConditionRead(peer.peer.condition, now: now) }, to: link)
    }
  }

  private func client(of peer: KnownPeer, by way: PeerWay, on link: PeerLink) throws(PeerFailure) -> PeerClient {
    let credentials = identity.credentials
    let present = link.state.withLock { $0.connection }
    if let present, present.isMade(for: peer, as: credentials.leaf, by: way) { return present.client }
    let client: PeerClient
    do {
      client = try PeerClient(
        way: way, authorities: peer.authorities, credentials: credentials, limits: limits,
        accepts: { [seen = identity.seenLeaves] leaf in
          if let fault = peer.fault(of: leaf) { return fault }
          seen.note(leaf, of: peer.name)
          return nil
        })
    } catch {
      throw .handshake(reason: FaultWords.of(error))
    }
    let made = PeerLink.Connection(client: client, peer: peer, leaf: credentials.leaf, way: way)
    let (used, replaced) = link.state.withLock { state -> (PeerClient?, PeerClient?) in
      guard !state.isGone else { return (nil, client) }
      // Another request may have made one meanwhile.
      if let other = state.connection, other.isMade(for: peer, as: credentials.leaf, by: way) {
        return (other.client, client)
      }
      defer { state.connection = made }
      return (client, state.connection?.client)
    }
    replaced?.retire()
    guard let used else { throw .cancelled }
    return used
  }
}

extension KnownPeer {
  /// Whether a connection to the one is a connection to the other.
  func isReached(as other: KnownPeer) -> Bool {
    endpoint == other.endpoint && authorities == other.authorities
      && peer.trust.revokedSerials == other.peer.trust.revokedSerials
  }
}
