import Logging
import Metrics
import NIOCore
import RelayCore
import RelayMetrics
import RelayWork
import Synchronization

/// Asks one peer which tokens are its accounts', one request at a time, and remembers what it said for a while.
final class PeerAsker: Sendable {
  struct Findings: Sendable {
    /// The accounts that the peer knows, in no order.
    var known: [ListedAccount]
    /// The tokens about which the peer has said nothing.
    var unanswered: Set<ContactToken> = []
  }

  /// One that waits until a batch has ended.
  private struct Waiting {
    let serial: Int
    let waiter: Waiter<Void>
  }

  private struct State {
    var cache = LookupCache()
    var queue = LookupQueue()
    var waiting: [ObjectIdentifier: Waiting] = [:]
    var isRunning = false
    /// When the request under way began.
    var began: ContinuousClock.Instant?
    /// Not asked before: it refused, or failed.
    var restsUntil: ContinuousClock.Instant?
    var isFailing = false
  }

  private enum Outcome {
    /// The tokens of the request that the peer knows.
    case answered([ContactToken: ListedAccount])
    case failed(reason: String, rest: Duration)
    /// The transport says why.
    case unreachable
    /// The peer is not to be asked any more.
    case withdrawn
  }

  private let name: RelayName
  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let clock: WallClock
  private let logger: Logger
  private let passedOver: Counter
  private let state = Mutex(State())

  init(name: RelayName, registry: PeerRegistry, transport: PeerTransport, clock: WallClock, logger: Logger) {
    self.name = name
    self.registry = registry
    self.transport = transport
    self.clock = clock
    self.logger = logger
    passedOver = RelayMetric.contacts.lookupsPassedOver.counter(.peer(name.text))
  }

  /// - Parameter timeout: after it, what is known by then has to do. It is not waited at all while a request is under
  ///   way for longer than that.
  func find(_ tokens: Set<ContactToken>, within timeout: Duration) async -> Findings {
    let now = clock.now()
    let deadline = ContinuousClock.now + timeout
    var found: [ListedAccount] = []
    var missing: [ContactToken] = []
    let serial: Int? = state.withLock { state in
      for token in tokens {
        switch state.cache.finding(for: token, at: now) {
        case .known(let account): found.append(account)
        case .unknown: continue
        case nil: missing.append(token)
        }
      }
      guard !missing.isEmpty, state.restsUntil.map({ $0 <= .now }) ?? true else { return nil }
      let serial = state.queue.add(missing)
      return state.began.map({ .now - $0 > timeout }) ?? false ? nil : serial
    }
    guard !missing.isEmpty else { return Findings(known: found) }
    start()
    if let serial { await wait(until: serial, orUntil: deadline) }
    let later = clock.now()
    var unanswered: Set<ContactToken> = []
    state.withLock { state in
      for token in missing {
        switch state.cache.finding(for: token, at: later) {
        case .known(let account): found.append(account)
        case .unknown: continue
        case nil: unanswered.insert(token)
        }
      }
    }
    if !unanswered.isEmpty { passedOver.increment() }
    return Findings(known: found, unanswered: unanswered)
  }

  private func wait(until serial: Int, orUntil deadline: ContinuousClock.Instant) async {
    let waiter = Waiter<Void>()
    let isOver = state.withLock { state in
      if state.queue.ended >= serial { return true }
      state.waiting[ObjectIdentifier(waiter)] = Waiting(serial: serial, waiter: waiter)
      return false
    }
    if isOver { return }
    await waiter.value(until: deadline)
    state.withLock { $0.waiting[ObjectIdentifier(waiter)] = nil }
  }
}

// MARK: - Requests

extension PeerAsker {
  /// Sends what waits, unless that is being done.
  private func start() {
    let isFirst = state.withLock { state in
      defer { state.isRunning = true }
      return !state.isRunning
    }
    guard isFirst else { return }
    Task.ofNobody { [self] in
      while let batch = next() { end(batch, await ask(batch)) }
    }
  }

  private func next() -> [ContactToken]? {
    state.withLock { state in
      let batch = state.queue.begin()
      state.isRunning = batch != nil
      state.began = batch == nil ? nil : .now
      return batch
    }
  }

  private func ask(_ tokens: [ContactToken]) async -> Outcome {
    guard let peer = registry.current.byName[name], peer.isQueried else { return .withdrawn }
    // Our clients' contacts are shown only to a peer that knows the request.
    guard await transport.capabilities(of: peer).contains(.lookup) else {
      guard registry.current.byName[name]?.peer.condition.isReachable == true else { return .unreachable }
      return .failed(reason: Self.unknownRequest, rest: .seconds(2))
    }
    var request = PeerRequest.put("/v1/federation/tokens", ContactCodec.encode(tokens: tokens))
    request.answerBytesMax = ListingReader.pageBytesMax
    do throws(PeerFailure) {
      return Self.read(try await transport.send(request, to: peer), of: tokens)
    } catch {
      return .unreachable
    }
  }

  private static func read(_ answer: PeerAnswer, of tokens: [ContactToken]) -> Outcome {
    switch answer.status {
    case 200: break
    case 403:
      return .failed(
        reason: "it answered 403: its operator lets this relay ask with `relay peer set NAME --scope …,lookup`",
        rest: .seconds(10))
    case 404: return .failed(reason: unknownRequest, rest: .seconds(10))
    case 413:
      return .failed(
        reason: "our budget there is used up", rest: .seconds(min(60, max(1, answer.retryAfterSeconds ?? 1))))
    default: return .failed(reason: "it answered \(answer.status)", rest: .seconds(1))
    }
    do throws(JSONError) {
      let listing = try ContactCodec.decodeListing(answer.body.readableBytesUInt8Span.bytes)
      // Answers about tokens that were not asked for are not believed.
      let asked = Set(tokens)
      let known = listing.accounts.filter { !$0.isInactive && asked.contains($0.token) }
      return .answered(Dictionary(known.map { ($0.token, $0) }) { first, _ in first })
    } catch {
      return .failed(reason: "its answer is not what docs/federation-wire.md describes", rest: .seconds(1))
    }
  }

  private static let unknownRequest =
    "it does not say that it can be asked: `relay peer set NAME --contacts copy` copies its listing"

  private func end(_ batch: [ContactToken], _ outcome: Outcome) {
    let now = clock.now()
    let (over, wasFailing) = state.withLock { state in
      let wasFailing = state.isFailing
      switch outcome {
      case .answered(let known):
        for token in batch {
          state.cache.remember(known[token].map { .known($0) } ?? .unknown, of: token, at: now)
        }
        state.queue.batchEnded()
        state.isFailing = false
      case .failed(_, let rest):
        state.restsUntil = .now + rest
        state.isFailing = true
        state.queue.allEnded()
      case .unreachable, .withdrawn: state.queue.allEnded()
      }
      let over = state.waiting.filter { $0.value.serial <= state.queue.ended }
      for id in over.keys { state.waiting[id] = nil }
      return (over.values.map(\.waiter), wasFailing)
    }
    over.end(with: ())
    switch outcome {
    case .failed(let reason, _) where !wasFailing:
      logger.warning("peer cannot be asked for contacts", metadata: ["peer": "\(name)", "reason": "\(reason)"])
    case .answered where wasFailing:
      logger.notice("peer can be asked for contacts again", metadata: ["peer": "\(name)"])
    default: break
    }
  }
}
