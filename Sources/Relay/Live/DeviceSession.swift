package import Logging
import NIOCore
import RelayCore
import RelayHTTP
import Synchronization

/// The parts that every session works with.
package struct SessionParts: Sendable {
  let hub: Hub
  let reader: MailboxReader
  let acknowledgements: Acknowledgements
  let router: SocketRouter
  let logger: Logger

  package init(
    hub: Hub, reader: MailboxReader, acknowledgements: Acknowledgements, router: SocketRouter, logger: Logger
  ) {
    self.hub = hub
    self.reader = reader
    self.acknowledgements = acknowledgements
    self.router = router
    self.logger = logger
  }
}

/// A live connection of a device: what waits in its mailbox goes out, its acknowledgements and requests come in
/// (reference 1.12).
///
/// `@unchecked Sendable`: `socket` and what stands below it are used on the socket's event loop alone; the rest is
/// constant or under a lock.
final class DeviceSession: SocketSession, LiveSession, @unchecked Sendable {
  private struct State {
    var window: DeliveryWindow
    /// nil when the device's cannot be used: then nothing is delivered here.
    var key: DeviceSignalingKey?
    /// Reads in a row that came to nothing.
    var readFailures = 0
  }

  let id: UInt64
  private let caller: SocketCaller
  let connection: LiveConnection
  let notes = SessionNotes()
  private let dialect: any SocketDialect
  private let parts: SessionParts
  private let state: Mutex<State>

  private let socket: any Socket
  private var calls = SocketCalls()
  private var lastDeliveryID: UInt64?
  private var owesPong = false
  /// Whether the window is to be told soon that time has passed.
  private var isTimed = false
  private var isKnownFull = false
  /// Waits for answers that are under way.
  private var isEnding = false
  private var isClosing = false

  init(
    _ socket: any Socket, of caller: SocketCaller, key: DeviceSignalingKey?, dialect: any SocketDialect,
    parts: SessionParts
  ) {
    var random = SystemRandomNumberGenerator()
    id = random.next()
    connection = LiveConnection(device: caller.device.address, id: id, opened: .now)
    self.socket = socket
    self.caller = caller
    self.dialect = dialect
    self.parts = parts
    state = Mutex(State(window: DeliveryWindow(hasKey: key != nil), key: key))
  }

  var device: DeviceAddress { caller.device.address }
  var hasEnded: Bool { state.withLock { $0.window.hasEnded } }
  var eventLoop: any EventLoop { socket.eventLoop }
  /// Whether something waits that the client has not had, or not answered.
  var isOwed: Bool { state.withLock { $0.window.isOwed } }

  // MARK: The socket

  func opened() {
    guard parts.hub.enter(self) else { return finish(.restart) }
    if state.withLock({ $0.key == nil }) { parts.hub.metrics.keylessOpened() }
    // The backlog. The hub knows the session already: nothing that is stored from now on is missed.
    woken()
  }

  func received(_ message: SocketMessage) {
    switch dialect.read(message) {
    case .acknowledgement(let id): acknowledged(id)
    case .refusal(let id):
      parts.hub.metrics.refused()
      tell { $0.refused(id) }
    case .call(let call): received(call)
    case .ping: pong()
    case .nothing: break
    case .malformed(let close): finish(.malformed, close)
    }
  }

  func becameWritable() {
    if owesPong { pong() }
    startCalls()
    tell { $0.becameWritable() }
  }

  private func pong() {
    owesPong = !socket.isWritable
    if !owesPong, let pong = dialect.pong { socket.send(pong) }
  }

  func closed() {
    if !isClosing { parts.hub.metrics.ended(nil) }
    isClosing = true
    state.withLock { $0.window.ended() }
    parts.hub.left(self)
  }

  func end(_ reason: EndReason) {
    // At once: a connection that another one displaces is sent no more.
    state.withLock { $0.window.ended() }
    eventLoop.execute { self.endOnLoop(reason) }
  }

  /// A process that stops first answers what it was asked; told again it does not wait.
  private func endOnLoop(_ reason: EndReason) {
    guard reason == .restart, !calls.isIdle, !isEnding else { return finish(reason) }
    isEnding = true
  }

  private func finish(_ reason: EndReason, _ close: SocketClose? = nil) {
    guard !isClosing else { return }
    isClosing = true
    parts.hub.metrics.ended(reason)
    state.withLock { $0.window.ended() }
    socket.close(close ?? reason.close)
  }

  // MARK: Deliveries

  /// Something may have been stored for the device. From any thread.
  func woken() { tell { $0.woken() } }

  /// This process has stored `message` for the device. From any thread.
  func stored(_ message: AppendedEnvelope) {
    guard let fresh = FreshMessage(message, in: parts.hub.freshRoom) else { return woken() }
    tell { $0.stored(fresh) }
  }

  /// The session may read without having been woken.
  /// - Parameter isDue: whether it is to. A mailbox whose last read failed is read all the same, and so is that of a
  ///   connection that other processes do not know of: they wake nobody.
  func polled(isDue: Bool) {
    if isDue || readFailures > 0 || !notes.isNoted.load(ordering: .acquiring) { woken() }
    if !doubtful.isEmpty { parts.reader.check(self) }
  }

  /// Places of the mailbox that another process may have emptied.
  var doubtful: [MailboxPlace] {
    state.withLock { $0.window.doubtful }.map { MailboxPlace(device, sequence: $0) }
  }

  /// These hold nothing any more.
  func gone(_ sequences: Set<Int64>) { tell { $0.gone(sequences) } }

  func timePassed(now: ContinuousClock.Instant) { tell { $0.timePassed(now: now) } }

  private func tell(_ event: (inout DeliveryWindow) -> DeliveryWindow.Action) {
    let (action, isHeldUp) = state.withLock { state in
      let action = event(&state.window)
      return (action, action == .rest && state.window.retryDelay != nil)
    }
    follow(action)
    // A client that answers nothing stands in its own way: what waits is delivered in a moment.
    if isHeldUp { eventLoop.execute { self.look() } }
  }

  private func follow(_ action: DeliveryWindow.Action) {
    switch action {
    case .rest: break
    case .read: parts.reader.add(self)
    case .deliverFresh: eventLoop.execute { self.deliverFresh() }
    }
  }

  /// The reader is about to ask. - Returns: nil when nothing is to be read after all.
  func readBegan() -> MailboxRead? {
    state.withLock { $0.window.readBegan() }.map { MailboxRead(device, held: $0.held, limit: $0.limit) }
  }

  func readFailed() {
    state.withLock { state in
      state.readFailures += 1
      state.window.readFailed()
    }
  }

  var readFailures: Int { state.withLock { $0.readFailures } }

  /// On the event loop, like each page.
  private func deliverFresh() {
    let page = state.withLock { $0.window.freshBegan() }
    let sent = deliver(page.map(\.queued))
    parts.hub.metrics.deliveredUnread(sent)
  }

  /// Takes the page that the reader has found, on the event loop. Sends as much as the socket has room for.
  /// - Returns: how many were sent.
  @discardableResult
  func deliver(_ page: [QueuedEnvelope]) -> Int {
    var sent = 0
    if !page.isEmpty, let sealer = state.withLock({ $0.key })?.sealer {
      let now = ContinuousClock.now
      while sent < page.count, socket.isWritable, deliver(page[sent], sealer, at: now) { sent += 1 }
      parts.hub.metrics.delivered(sent)
    }
    let action = state.withLock { [sent, isWritable = socket.isWritable] state in
      state.readFailures = 0
      return state.window.pageDelivered(found: page.count, sent: sent, isWritable: isWritable)
    }
    follow(action)
    look()
    return sent
  }

  /// Whether the window stands in the way of what waits.
  private func look() {
    let (isFull, delay) = state.withLock { ($0.window.isFull, $0.window.retryDelay) }
    if isFull, !isKnownFull { parts.hub.metrics.heldTooMany() }
    isKnownFull = isKnownFull || isFull
    guard let delay, !isTimed else { return }
    isTimed = true
    eventLoop.scheduleTask(in: TimeAmount(delay)) { [weak self] in
      guard let self else { return }
      isTimed = false
      timePassed(now: .now)
      look()
    }
  }

  private func deliver(_ queued: QueuedEnvelope, _ sealer: EnvelopeSealer, at now: ContinuousClock.Instant) -> Bool {
    do {
      let sealed = try sealer.seal(queued.envelope)
      let id = state.withLock { state in
        dialect.deliveryID(after: lastDeliveryID) { state.window.holds($0) }
      }
      let message = try dialect.delivery(of: sealed, id: id)
      let delivery = DeliveryWindow.Delivery(
        id: id, sequence: queued.sequence, byteCount: queued.envelope.byteCount,
        receipt: DeliveryReceipt(for: queued.envelope))
      guard state.withLock({ $0.window.delivered(delivery, at: now) }) else { return false }
      lastDeliveryID = id
      socket.send(message)
      return true
    } catch {
      // Nothing in an envelope can make it fail.
      parts.logger.error("a delivery could not be written", metadata: ["error": "\(type(of: error))"])
      finish(.internalError)
      return false
    }
  }

  // MARK: Acknowledgements

  private func acknowledged(_ id: UInt64) {
    let (removal, action) = state.withLock { $0.window.acknowledged(id) }
    if let removal {
      socket.refund()
      if !parts.acknowledgements.add(removal, of: self) { removalFailed(removal.id) }
    }
    follow(action)
  }

  func removed(_ id: UInt64) { tell { $0.removed(id) } }
  func removed(sequence: Int64) { tell { $0.removed(sequence: sequence) } }
  func removalFailed(_ id: UInt64) { state.withLock { $0.window.removalFailed(id) } }

  // MARK: Requests

  private func received(_ call: SocketCall) {
    guard !isClosing else { return }
    // Said every few seconds by every client: answered without a detour.
    if call.isKeepAlive, socket.isWritable { return answer(call, .ok) }
    if isEnding { return answer(call, .unavailable) }
    guard calls.received(call) else { return finish(.tooMuch) }
    startCalls()
  }

  /// As long as the client takes what it is answered: who asks for much and reads little waits.
  private func startCalls() {
    while socket.isWritable, let call = calls.next() { start(call) }
  }

  private func start(_ call: SocketCall) {
    Task { [parts, caller, eventLoop] in
      let answer = call.isKeepAlive ? .ok : await parts.router.answer(call, of: caller)
      eventLoop.execute { self.finished(call, answer) }
    }
  }

  private func finished(_ call: SocketCall, _ answer: SocketAnswer) {
    self.answer(call, answer)
    calls.answered()
    startCalls()
    if isEnding, calls.isIdle { finish(.restart) }
  }

  /// Nothing is said to what wants no answer, and nothing once the socket is closing.
  private func answer(_ call: SocketCall, _ answer: SocketAnswer) {
    guard let id = call.id, !isClosing else { return }
    do {
      if let message = try dialect.answer(answer, to: id) { socket.send(message) }
    } catch {
      parts.logger.error("an answer could not be written", metadata: ["error": "\(type(of: error))"])
      finish(.internalError)
    }
  }

  // MARK: Credentials

  /// Whether the device still is the one that opened the connection, and which key it has now.
  /// - Parameter account: as it is now; nil where there is none any more.
  /// - Returns: the device; nil when it is another one, or the connection has ended.
  func check(_ account: Account?) -> Device? {
    guard !hasEnded else { return nil }
    guard let current = account?.device(device.device), current.password == caller.device.password else {
      end(.policy)
      return nil
    }
    adopt(DeviceSignalingKey(current.signalingKey))
    return current
  }

  private func adopt(_ key: DeviceSignalingKey?) {
    let action = state.withLock { state -> DeliveryWindow.Action in
      guard key != state.key else { return .rest }
      state.key = key
      return state.window.keyChanged(isUsable: key != nil)
    }
    follow(action)
  }
}
