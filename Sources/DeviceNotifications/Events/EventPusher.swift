import AsyncHTTPClient
package import Logging
import NIOCore
import NIOHTTP1
package import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Sends accounts their events: those of one account in their order and one at a time, by one process at a time.
///
/// Which event comes next stands in the store: whichever process takes over goes on there. An event may arrive twice,
/// never out of order.
package final class EventPusher: Service {
  private struct State {
    var busy: Set<NotificationUser> = []
    /// The lease is this process's until then, by its own clock.
    var leaseEnds: ContinuousClock.Instant?
    var isStopping = false
  }

  private static let leaseName = "notification-events"
  private static let leaseLife = Duration.seconds(60)
  /// The part of the lease that must be left for a request to begin: more than a request may take.
  private static let leaseMargin = Duration.seconds(30)
  private static let interval = Duration.seconds(1)
  /// Accounts at a time, and events of one turn.
  private static let (accountsMax, eventsPerTurn) = (64, 20)

  private let store: any NotificationStore & LeaseStore
  private let lease: Lease<StoreError>
  private let clock: WallClock
  private let logger: Logger
  private let answerLimit: TimeAmount
  private let looks = Nudge(isDue: true)
  private let state = Mutex(State())

  /// - Parameter answerLimit: a server that has not answered by then does not. Below what is left of a lease.
  package init(
    store: any NotificationStore & LeaseStore, clock: WallClock, logger: Logger, answerLimit: Duration = .seconds(10)
  ) {
    self.answerLimit = TimeAmount(answerLimit)
    self.store = store
    lease = store.lease(holder: .random(in: 1 ... .max), lasting: Self.leaseLife)
    self.clock = clock
    self.logger = logger
  }

  /// There may be an event to send.
  package func wake() { looks.wake() }

  package func run() async throws {
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    await withGracefulShutdownHandler {
      await withDiscardingTaskGroup { group in
        let ticking = Task { [looks] in await looks.wake(every: Self.interval, from: .afterInterval) }
        defer { ticking.cancel() }
        for await _ in looks {
          if state.withLock({ $0.isStopping }) { break }
          for turn in await turns() {
            group.addTask { await self.serve(turn, client) }
          }
        }
      }
    } onGracefulShutdown: { [self] in
      state.withLock { $0.isStopping = true }
      looks.wake()
    }
    await giveUpLease()
    try await client.shutdown()
  }

  private var configuration: HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration(
      redirectConfiguration: .disallow, timeout: .init(connect: answerLimit), decompression: .disabled)
    // The schedule decides what is tried again, and when.
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  // MARK: Turns

  private func turns() async -> [EventTurn] {
    do throws(StoreError) {
      guard try await holdLease() else { return [] }
      let busy = state.withLock { $0.busy }
      guard busy.count < Self.accountsMax else { return [] }
      let turns = try await store.eventTurns(
        limit: Self.accountsMax - busy.count, without: Array(busy), now: clock.now())
      state.withLock { $0.busy.formUnion(turns.map(\.account)) }
      return turns
    } catch {
      logger.debug("events cannot be read", metadata: ["error": "\(error)"])
      return []
    }
  }

  /// Renews the lease when half of it is over.
  private func holdLease() async throws(StoreError) -> Bool {
    let now = ContinuousClock.now
    if let ends = state.withLock({ $0.leaseEnds }), ends - now > Self.leaseLife / 2 { return true }
    let isOurs = try await lease.acquire(Self.leaseName)
    // From before the call: the store's clock began later.
    state.withLock { $0.leaseEnds = isOurs ? now + Self.leaseLife : nil }
    return isOurs
  }

  private var mayBegin: Bool {
    state.withLock { state in
      guard !state.isStopping, let ends = state.leaseEnds else { return false }
      return ends - .now > Self.leaseMargin
    }
  }

  private func giveUpLease() async {
    guard state.withLock({ $0.leaseEnds }) != nil else { return }
    do throws(StoreError) {
      try await lease.release(Self.leaseName)
    } catch {
      // It runs out.
      logger.debug("the lease of events cannot be given up", metadata: ["error": "\(error)"])
    }
  }

  // MARK: One account

  private func serve(_ turn: EventTurn, _ client: HTTPClient) async {
    // In a task of its own: what an event has come to is noted even when this one is cancelled.
    let mayHaveMore = await Task {
      do {
        return try await self.send(turn, client)
      } catch {
        self.logger.debug("what became of an event cannot be stored", metadata: ["error": "\(error)"])
        return false
      }
    }.value
    state.withLock { _ = $0.busy.remove(turn.account) }
    if mayHaveMore { looks.wake() }
  }

  /// - Returns: whether all went well.
  private func send(_ turn: EventTurn, _ client: HTTPClient) async throws -> Bool {
    var (pushed, attempts) = (turn.pushed, turn.attempts)
    for event in try await store.events(of: turn.account, after: turn.pushed, limit: Self.eventsPerTurn) {
      guard mayBegin else { return false }
      if await isTaken(EventRequest(event, of: turn.account, to: turn.target), client) {
        NotificationCounters.eventPushed(.taken)
      } else {
        attempts += 1
        NotificationCounters.eventPushed(.failed)
        if let pause = EventSchedule.pause(after: attempts) {
          let next = clock.now().adding(pause)
          try await store.putOffEvents(of: turn.account, after: pushed, attempts: attempts, until: next)
          return false
        }
        NotificationCounters.eventPushed(.givenUp)
        logger.warning(
          "an event is given up: the account's server does not take it", metadata: ["user": "\(turn.account)"])
      }
      try await store.eventWasPushed(event.number, of: turn.account, now: clock.now())
      (pushed, attempts) = (event.number, 0)
    }
    return true
  }

  /// Whether the account's server has answered that it has it. Any 2xx does; a redirection does not.
  private func isTaken(_ request: EventRequest, _ client: HTTPClient) async -> Bool {
    var outgoing = HTTPClientRequest(url: request.url)
    if let form = request.form {
      outgoing.method = .POST
      outgoing.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
      outgoing.body = .bytes(ByteBuffer(string: form))
    }
    do {
      let response = try await client.execute(outgoing, timeout: answerLimit)
      return (200..<300).contains(response.status.code)
    } catch {
      // The type says enough: the URL may hold a secret.
      logger.debug("an account's server cannot be reached", metadata: ["error": "\(type(of: error))"])
      return false
    }
  }
}
