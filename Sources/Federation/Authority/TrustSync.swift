import Hummingbird
package import Logging
import NIOCore
package import RelayCore
import RelayHTTP
import RelayWork
import ServiceLifecycle
import Synchronization

/// Reads what peers' CAs say of themselves, and takes up what `SignedStatement.change(of:)` allows.
///
/// Each active peer is asked every half minute, a new one at once; at most `askedMax` at a time, and each once at a
/// time. Every process may run it: a statement that was taken up is not taken up again.
package final class TrustSync: Service {
  static let path = "/v1/federation/authority"
  private static let askedMax = 16
  private static let lookInterval = Duration.seconds(1)
  /// For a peer of which it is not known that it makes statements.
  private static let pause = Duration.seconds(5)

  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let store: any PeerStore
  private let signals: any SignalBus
  private let interval: Duration
  private let logger: Logger
  private let schedule: Mutex<TrustSchedule>
  /// By peer, what was logged last of it.
  private let told = Mutex<[RelayName: String]>([:])

  package init(
    registry: PeerRegistry, transport: PeerTransport, store: any PeerStore, signals: any SignalBus,
    interval: Duration = .seconds(30), logger: Logger
  ) {
    self.registry = registry
    self.transport = transport
    self.store = store
    self.signals = signals
    self.interval = interval
    self.logger = logger
    schedule = Mutex(TrustSchedule(askedMax: Self.askedMax))
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        for await _ in Periodic(every: min(interval, Self.lookInterval)) {
          for peer in due() {
            group.addTask {
              let isDone = await self.follow(peer)
              self.ended(peer, after: isDone ? self.interval : min(self.interval, Self.pause))
            }
          }
        }
      }
    }
  }

  private func due() -> [KnownPeer] {
    let active = registry.peers.filter(\.isActive)
    let names = schedule.withLock { $0.due(among: active.map(\.name), at: .now) }
    told.withLock { told in told = told.filter { known in active.contains { $0.name == known.key } } }
    return active.filter { names.contains($0.name) }
  }

  private func ended(_ peer: KnownPeer, after interval: Duration) {
    // So that the processes of many operators do not fall into step.
    let next = ContinuousClock.now + interval * Double.random(in: 0.8...1.2)
    schedule.withLock { $0.ended(peer.name, next: next) }
  }

  /// - Returns: whether it was asked; what it can do may not be known yet.
  private func follow(_ peer: KnownPeer) async -> Bool {
    guard await transport.capabilities(of: peer).contains(.statements) else { return false }
    do {
      // Only then: of two processes of the peer one may have older files, and be met every other time.
      if try await ask(peer) { told.withLock { $0[peer.name] = nil } }
    } catch {
      guard !Task.isCancelled, error.isWorthTelling else { return true }
      let reason = "\(error)"
      guard told.withLock({ $0.updateValue(reason, forKey: peer.name) != reason }) else { return true }
      logger.warning("statement of peer not taken up", metadata: ["peer": "\(peer.name)", "reason": "\(reason)"])
    }
    return true
  }

  /// Asks `peer` once.
  /// - Returns: whether something was taken up.
  @discardableResult
  func ask(_ peer: KnownPeer) async throws(TrustFault) -> Bool {
    var request = PeerRequest.get(Self.path)
    request.answerBytesMax = SignedStatement.bytesMax
    let answer: PeerAnswer
    do throws(PeerFailure) {
      answer = try await transport.send(request, to: peer)
    } catch {
      throw .peer(error)
    }
    // It has said nothing yet.
    if answer.status == 404 { return false }
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    let signed: SignedStatement
    do throws(JSONError) {
      signed = try SignedStatement.decode(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw .malformed
    }
    return try await takeUp(signed, of: peer)
  }

  private func takeUp(_ signed: SignedStatement, of peer: KnownPeer) async throws(TrustFault) -> Bool {
    // Another process may have changed the store since the peer was asked. If the peer was removed, its statement is
    // not believed.
    guard let known = registry.current.byName[peer.name] else { return false }
    let change: TrustChange?
    do throws(StatementFault) {
      change = try signed.change(of: known)
    } catch {
      throw .statement(error)
    }
    guard let change else { return false }
    do throws(StoreError) {
      let isStored = try await store.setPeerTrust(
        change.trust, caCertificate: change.caCertificate, replacing: known.peer.caCertificate, of: known.name)
      guard isStored else { return false }
    } catch {
      throw .store(error)
    }
    await signals.publish(.peersChanged)
    await registry.refresh()
    logger.notice(
      "statement of peer taken up",
      metadata: [
        "peer": "\(peer.name)", "successor": "\(change.trust.nextCACertificate == nil ? "none" : "named")",
        "authority": "\(change.caCertificate == known.peer.caCertificate ? "same" : "taken over by its successor")",
        "revoked": "\(change.trust.revokedSerials.count)",
      ])
    return true
  }
}

/// Why a peer's statement could not be read or taken up.
enum TrustFault: Error, CustomStringConvertible {
  case peer(PeerFailure)
  case refused(status: Int)
  case malformed
  case statement(StatementFault)
  case store(StoreError)

  /// That a peer is away is told elsewhere.
  var isWorthTelling: Bool {
    if case .peer = self { return false }
    return true
  }

  var description: String {
    switch self {
    case .peer(let failure): "\(failure)"
    case .refused(let status): "it answered \(status)"
    case .malformed: "its answer is no statement"
    case .statement(let fault): "\(fault)"
    case .store(let error): "\(error)"
    }
  }
}

/// Decides when each peer is asked for its statement. States of a peer: asked → waiting → asked.
struct TrustSchedule: Sendable {
  /// At a time.
  let askedMax: Int
  private var asked: Set<RelayName> = []
  private var waiting: [RelayName: ContinuousClock.Instant] = [:]

  init(askedMax: Int) { self.askedMax = askedMax }

  /// The peers to ask now, in the order given; those that are gone are forgotten.
  mutating func due(among names: [RelayName], at now: ContinuousClock.Instant) -> Set<RelayName> {
    waiting = waiting.filter { names.contains($0.key) }
    let due = names.filter { name in !asked.contains(name) && (waiting[name].map { $0 <= now } ?? true) }
      .prefix(max(0, askedMax - asked.count))
    asked.formUnion(due)
    return Set(due)
  }

  mutating func ended(_ name: RelayName, next: ContinuousClock.Instant) {
    asked.remove(name)
    waiting[name] = next
  }
}

/// Shows peers what our CA says of itself (docs/federation-wire.md, "Authority statements"). It asks for no scope:
/// whoever trusts us has to know.
struct AuthorityController: Sendable {
  private let identity: FederationIdentity

  init(identity: FederationIdentity) { self.identity = identity }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/authority", [(.get, statement)])
  }

  private func statement(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let statement = identity.statement else { throw Problem(.notFound) }
    return .json(statement)
  }
}
