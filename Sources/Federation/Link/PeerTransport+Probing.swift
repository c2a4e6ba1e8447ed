import Logging
import NIOCore
import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

extension PeeringStatus {
  /// - Returns: nil for anything but an answer of success that can be read.
  static func read(_ answer: PeerAnswer) -> PeeringStatus? {
    guard answer.status == 200 else { return nil }
    // A relay of another make may answer anything there.
    return try? decode(answer.body.readableBytesUInt8Span.bytes)
  }
}

extension PeerTransport {
  /// Probes peers that do not answer, tells other processes what was found out, and closes all clients at shutdown.
  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        group.addTask { await self.tell() }
        for await link in opened.stream {
          group.addTask { await self.probe(link) }
        }
        // Only cancellation ends the stream.
        group.cancelAll()
      }
    }
    close()
  }

  /// A request has shown whether the peer is there.
  /// - Parameter fault: nil when it is.
  func settle(_ fault: PeerFault?, on link: PeerLink, reason: PeerFailure? = nil) {
    let now = clock.now()
    let change = link.state.withLock { state in
      if let fault { state.breaker.failed(fault, now: now) } else { state.breaker.answered() }
    }
    apply(change, to: link, reason: reason)
  }

  /// Does what `change` of the breaker asks for.
  func apply(_ change: PeerBreaker.Change, to link: PeerLink, reason: PeerFailure? = nil) {
    switch change {
    case .none: return
    case .opened(let fault, let isOurs):
      link.show(isAvailable: false)
      let reason = reason.map { "\($0)" } ?? (isOurs ? "it does not have this relay" : "another process says so")
      logger.warning(
        "peer does not answer", metadata: ["peer": "\(link.name)", "fault": "\(fault.rawValue)", "reason": "\(reason)"])
      // A probe is to find the peer again by a connection of its own.
      link.disconnect()?.retire(within: limits.retirement)
      let isToProbe = link.state.withLock { state in
        defer { state.isProbed = true }
        // A fault that another process found may not hold here.
        if !isOurs { state.isProbedAtOnce = true }
        // A refusal may have been about one request only. A peer that refuses requests and answers probes would be lost
        // and found as fast as it answers, if it were always probed at once.
        if isOurs, fault == .refused, state.hastened.map({ $0 + limits.hastenedInterval <= .now }) ?? true {
          state.isProbedAtOnce = true
          state.hastened = .now
        }
        return !state.isProbed
      }
      if isToProbe { opened.continuation.yield(link) }
      if isOurs, !link.state.withLock({ $0.breaker.isPrivate }) { share(link) }
    case .redefined(let fault):
      logger.notice(
        "peer does not answer, for another reason", metadata: ["peer": "\(link.name)", "fault": "\(fault.rawValue)"])
      share(link)
    case .disclosed: share(link)
    case .closed(let isOurs):
      link.show(isAvailable: true)
      logger.notice("peer answers again", metadata: ["peer": "\(link.name)"])
      if isOurs { share(link) }
    }
  }

  /// Probes until the breaker is closed or the peer is gone.
  private func probe(_ link: PeerLink) async {
    var began = ContinuousClock.now
    while !Task.isCancelled {
      await waitToProbe(link, after: began)
      began = .now
      let isOver = link.state.withLock { state in
        let isOver = state.isGone || state.breaker.fault == nil
        if isOver { state.isProbed = false }
        return isOver
      }
      if isOver { return }
      if let peer = registry.current.byName[link.name], peer.isActive { await probeOnce(peer, on: link) }
    }
  }

  /// Shorter when there is news.
  /// - Parameter began: when the last probe did.
  private func waitToProbe(_ link: PeerLink, after began: ContinuousClock.Instant) async {
    let due = limits.probeDue(after: began, now: .now, spread: random())
    while ContinuousClock.now < due, !Task.isCancelled {
      let isNews = link.state.withLock { state in
        defer { state.isProbedAtOnce = false }
        return state.isProbedAtOnce || state.isGone || state.breaker.fault == nil
      }
      if isNews { return }
      await Pause.for(min(Self.newsInterval, due - .now))
    }
  }

  /// How often a wait looks for news.
  private static let newsInterval = Duration.milliseconds(100)

  private func probeOnce(_ peer: KnownPeer, on link: PeerLink) async {
    var request = PeerRequest.get(PeeringStatus.path)
    request.deadline = .now + limits.probeTimeout
    do throws(PeerFailure) {
      let answer = try await perform(request, to: peer, on: link)
      // One that does not have us is refused by its gate, whatever it asks; `perform` has taken note.
      let capabilities = PeeringStatus.read(answer)?.capabilities ?? []
      link.state.withLock { $0.capabilities.told(capabilities, at: .now) }
    } catch {
      // Noted likewise; the next probe makes a new connection.
      link.disconnect()?.retire()
    }
  }

  /// Has other processes told. Cheap when they already are to be.
  private func share(_ link: PeerLink) {
    let isNew = link.state.withLock { state in
      defer { state.isUntold = true }
      return !state.isUntold
    }
    if isNew { untold.continuation.yield(link) }
  }

  /// Writes what was found out for other processes, one peer after the other. While the store is away, the newest word
  /// of each peer waits.
  private func tell() async {
    for await link in untold.stream {
      let condition = link.state.withLock { state -> PeerCondition? in
        state.isUntold = false
        return state.isGone || state.breaker.isPrivate ? nil : state.breaker.condition
      }
      guard let condition else { continue }
      do throws(StoreError) {
        if try await store.setPeerCondition(condition, of: link.name) { await signals.publish(.peersChanged) }
      } catch {
        logger.debug(
          "what is known of a peer cannot be shared yet", metadata: ["peer": "\(link.name)", "error": "\(error)"])
        await Pause.for(.seconds(1))
        share(link)
      }
    }
  }
}
