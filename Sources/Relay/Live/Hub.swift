package import Logging
package import RelayCore
import RelayHTTP
import RelayWork
import Synchronization

/// The sessions of this process: the devices connected here. A device is woken when something was stored for it, in
/// whatever process.
///
/// Messages stored by this process go to its own sessions as they are, and wake them where they have to be read. All
/// other devices are woken through `Presence`, together with those that gather meanwhile. A wake-up may be lost, so
/// every session reads its mailbox by itself now and then (docs/delivery.md): seldom while the word of other processes
/// arrives without a break (`RoundPace`). A process that could not wake a device elsewhere wakes it later
/// (`UntoldDevices`). Until then it says by the store that all mailboxes are to be read (`MissedWakeUpStore`). So does
/// one that begins, and one that finds another dead (`Presence.rollCall`).
package final class Hub: MailboxWatch {
  private struct State {
    var table: SessionTable
    /// By what the other processes say of mailboxes, and of accounts.
    var polls: RoundPace
    var checks: RoundPace
    /// As `missed` had it last.
    var missedWakeUps: Int64?
    var isDraining = false
  }

  let registry: ProvisioningRegistry
  let metrics = LiveMetrics()
  let freshRoom = FreshRoom(bytesMax: freshBytesMax)
  private let state: Mutex<State>
  private let book: PresenceWriter
  private let elsewhere: Batcher<DeviceAddress>
  private let untold: UntoldDevices
  private let presence: any Presence
  private let missed: any MissedWakeUpStore
  /// Wakes devices with no connection; nil if they are not woken.
  private let notifier: (any Notifier)?
  /// Checks of sessions that have come, or whose account was changed.
  private let checks: CredentialChecks<DeviceSession>
  /// Checks of all sessions in their turn. They never hold up the others.
  private let routineChecks: CredentialChecks<DeviceSession>
  private let pollStep: Duration
  private let pollInterval: Duration
  /// From one look at `missed` to the next.
  private let comparison: Duration

  /// - Parameters:
  ///   - pollInterval: how long a session's mailbox goes unread at most while the word of other processes may be lost.
  ///   - steadyPollInterval: the same while it arrives without a break; `pollInterval` if that is longer.
  package init(
    presence: any Presence, signals: any SignalBus, missed: any MissedWakeUpStore, accounts: AccountCache,
    lastSeen: LastSeen, pollInterval: Duration, steadyPollInterval: Duration, notifier: (any Notifier)? = nil,
    logger: Logger
  ) {
    self.presence = presence
    self.missed = missed
    self.notifier = notifier
    registry = ProvisioningRegistry(presence: presence, metrics: metrics, logger: logger)
    let pollSteps = max(1, min(Self.pollStepsMax, Int(pollInterval / Self.pollStepMin)))
    pollStep = pollInterval / pollSteps
    self.pollInterval = pollInterval
    comparison = pollInterval / 4
    state = Mutex(
      State(
        table: SessionTable(renewalSteps: Self.renewalSteps, pollSteps: pollSteps),
        polls: RoundPace(steps: pollSteps, rounds: max(1, Int(steadyPollInterval / pollInterval))),
        checks: RoundPace(steps: Self.renewalSteps, rounds: Self.roundsOfCheck)))
    book = PresenceWriter(presence)
    let untold = UntoldDevices()
    self.untold = untold
    elsewhere = Batcher(batchMax: Self.wakeUpsPerCall, waitingMax: Self.wakeUpsMax) { [metrics] devices in
      let distinct = Array(Set(devices))
      let outcome = await presence.wake(distinct)
      metrics.woken(distinct.count, outcome)
      if !outcome.absent.isEmpty { notifier?.absent(outcome.absent, isCertain: true) }
      guard !outcome.unknown.isEmpty else { return }
      untold.add(outcome.unknown)
      notifier?.absent(outcome.unknown, isCertain: false)
    }
    checks = CredentialChecks { (sessions: [DeviceSession]) in
      _ = Self.check(sessions, by: await accounts.accounts(Set(sessions.lazy.map(\.device.account))))
    }
    routineChecks = CredentialChecks { (sessions: [DeviceSession]) in
      let present = await accounts.readAgain(Set(sessions.lazy.map(\.device.account)))
      for (session, device) in Self.check(sessions, by: present) {
        lastSeen.noteStaying(device, at: session.device, draw: session.id)
      }
    }
    signals.listen { [weak self] event in self?.heard(event) }
    presence.hear { [weak self] event in self?.heard(event) }
  }

  /// WebSockets that are open, of every kind.
  package var connectionCount: Int { state.withLock { $0.table.count } + registry.count }
  var isDraining: Bool { state.withLock { $0.isDraining } }

  // MARK: Coming and going

  /// The newest connection of a device is the one that counts: an older one here ends.
  /// - Returns: false when the process drains: the session has to go elsewhere.
  func enter(_ session: DeviceSession) -> Bool {
    let (isAdmitted, older) = state.withLock { state -> (Bool, DeviceSession?) in
      state.isDraining ? (false, nil) : (true, state.table.insert(session))
    }
    guard isAdmitted else { return false }
    older?.end(.displaced)
    book.held([session])
    notifier?.connected(session.device)
    // Its backlog is read now: where the connection ends before that is taken, the device is asked for again.
    session.notes.told(at: .now)
    // Changes between its proof and its entry here were not told to it.
    check([session])
    showCounts()
    return true
  }

  /// Does nothing for a session that is not here any more.
  func left(_ session: DeviceSession) {
    guard state.withLock({ $0.table.remove(session) }) else { return }
    book.left(session.connection)
    wakeSuccessor(of: session)
    notify(of: session)
    showCounts()
  }

  /// A newer connection of the device may stand elsewhere, and what was stored here meanwhile has woken `session`,
  /// which is no longer here.
  private func wakeSuccessor(of session: DeviceSession) {
    if session.notes.wasWokenLately(now: .now) { wakeElsewhere([session.device]) }
  }

  /// A connection that was told of a message and ended without taking it may have been dead for a while.
  private func notify(of session: DeviceSession) {
    guard let notifier, session.isOwed, session.notes.wasToldLately(now: .now) else { return }
    notifier.absent([session.device], isCertain: false)
  }

  /// Checks `sessions` at once. A session for which there is no room has to connect anew, and prove itself.
  private func check(_ sessions: [DeviceSession]) {
    for session in checks.add(sessions) { session.end(.restart) }
  }

  /// - Returns: the sessions that still may be connected, and their devices. Where an account could not be read, the
  ///   next round looks again.
  private static func check(
    _ sessions: [DeviceSession], by present: ManyAccounts
  ) -> [(session: DeviceSession, device: Device)] {
    sessions.compactMap { session in
      let account = session.device.account
      let isUnread = present.unread.contains(account)
      session.notes.isUnchecked.store(isUnread, ordering: .relaxed)
      guard !isUnread else { return nil }
      return session.check(present.found[account]).map { (session, $0) }
    }
  }

  // MARK: Waking

  package func watches(_ mailbox: DeviceAddress) -> Bool { session(of: mailbox).map { !$0.hasEnded } ?? false }

  package func stored(_ messages: [AppendedEnvelope]) {
    let (here, others) = split(messages, by: \.envelope.destination, storedHere: true)
    metrics.wokenHere(here.count)
    for (session, message) in here { session.stored(message) }
    wakeElsewhere(others)
  }

  package func removed(_ sequence: Int64, from mailbox: DeviceAddress) {
    session(of: mailbox)?.removed(sequence: sequence)
  }

  private func wakeElsewhere(_ devices: [DeviceAddress]) {
    tellLater(devices.dropFirst(elsewhere.add(contentsOf: devices)))
  }

  private func tellLater(_ devices: ArraySlice<DeviceAddress>) {
    guard !devices.isEmpty else { return }
    metrics.wakeUpsDropped(devices.count)
    untold.add(devices)
  }

  /// Tells the processes of the devices that they could not be told of. Where a node of a cluster is away, its devices
  /// do not hold up the others'.
  func tellAgain() async {
    var left: [DeviceAddress] = []
    while let devices = untold.take(Self.wakeUpsPerCall) {
      let outcome = await presence.wake(devices)
      if !outcome.absent.isEmpty { notifier?.absent(outcome.absent, isCertain: true) }
      left += outcome.unknown
      if outcome.unknown.count == devices.count { break }
    }
    untold.putBack(left)
  }

  /// Tells the other processes by the store that they may have missed something, and hears it of them.
  func compareMissed() async {
    if await presence.rollCall(silence: pollInterval) > 0 { untold.noteNews() }
    let isNews = untold.takeNews()
    do throws(StoreError) {
      if isNews { try await missed.noteMissedWakeUps() }
      let present = try await missed.missedWakeUps()
      state.withLock { state in
        if let known = state.missedWakeUps, known != present { state.polls.doubted() }
        state.missedWakeUps = present
      }
    } catch {
      // Said with the next comparison.
      if isNews { untold.noteNews() }
    }
  }

  /// The one that stands here.
  func session(of device: DeviceAddress) -> DeviceSession? { state.withLock { $0.table.session(of: device) } }

  /// Splits `devices` by whether their session is here.
  func split(_ devices: [DeviceAddress]) -> (here: [DeviceSession], others: [DeviceAddress]) {
    let (here, others) = split(devices, by: \.self, storedHere: false)
    return (here.map(\.session), others)
  }

  /// Splits what is for devices by whether their session is here. A session that is leaving is not here: the device may
  /// be connected elsewhere already.
  ///
  /// - Parameter storedHere: whether no other process tells of it.
  private func split<Item: Sendable>(
    _ items: [Item], by device: (Item) -> DeviceAddress, storedHere: Bool
  ) -> (here: [(session: DeviceSession, item: Item)], others: [DeviceAddress]) {
    let now = ContinuousClock.now
    return state.withLock { state in
      var here: [(session: DeviceSession, item: Item)] = []
      var others: [DeviceAddress] = []
      for item in items {
        let device = device(item)
        guard let session = state.table.session(of: device), !session.hasEnded else {
          others.append(device)
          continue
        }
        // Under the lock: who takes it from the table sees this.
        if storedHere { session.notes.woken(at: now) }
        session.notes.told(at: now)
        here.append((session, item))
      }
      return (here, others)
    }
  }

  // MARK: What the other processes say

  private func heard(_ event: PresenceEvent) {
    switch event {
    case .wakeUp(let devices):
      let (here, strays) = split(devices)
      for session in here { session.woken() }
      tellLater(strays.dropFirst(book.strayed(strays, heardBy: self)))
    case .displaced(let device, let id): displaced(device, id)
    case .handedOver(let bytes, let address): registry.handedOver(bytes, to: address)
    // Entries and words may have been lost meanwhile.
    case .connected:
      let all = state.withLock { state in
        state.polls.connected()
        return state.table.all
      }
      book.held(all)
      for session in all { session.woken() }
    case .disconnected: state.withLock { $0.polls.disconnected() }
    }
  }

  /// Others took devices for connected here that are not: their entries were left behind, by connections that ended
  /// while shared state was away or that end just now. The entries are forgotten, so that the word reaches whoever has
  /// the device now, or the providers.
  ///
  /// Called by the book in its turn: a session that comes meanwhile is noted behind this.
  func settle(strays: [DeviceAddress]) async {
    let (here, gone) = split(strays)
    for session in here { session.woken() }
    guard !gone.isEmpty else { return }
    metrics.strayed(gone.count)
    if await presence.forget(gone) { return wakeElsewhere(gone) }
    untold.add(gone)
    notifier?.absent(gone, isCertain: false)
  }

  private func displaced(_ device: DeviceAddress, _ id: UInt64) {
    let displaced = state.withLock { state -> DeviceSession? in
      guard let session = state.table.session(of: device), session.id == id else { return nil }
      state.table.remove(session)
      return session
    }
    guard let displaced else { return }
    displaced.end(.displaced)
    wakeSuccessor(of: displaced)
    showCounts()
  }

  private func heard(_ event: SignalEvent) {
    switch event {
    case .signal(.accountChanged(let number)): check(state.withLock { $0.table.sessions(of: number) })
    case .signal(.peersChanged), .signal(.contactsChanged), .signal(.wakesAsked): break
    case .disconnected: state.withLock { $0.checks.disconnected() }
    // Signals may have been lost meanwhile.
    case .connected:
      check(
        state.withLock { state in
          state.checks.connected()
          return state.table.all
        })
    }
  }

  private func showCounts() { metrics.show(devices: state.withLock { $0.table.count }) }

  // MARK: Rounds

  /// A second's share of the sessions: their entries are renewed, and what they left unacknowledged for long is set
  /// aside. Every session's turn comes every 15 seconds. Its credentials are looked at as often while signals may be
  /// lost, and in each fourth turn while they arrive.
  func renew() {
    let (due, turn) = state.withLock { ($0.table.dueForRenewal(), $0.checks.next()) }
    let now = ContinuousClock.now
    for session in due { session.timePassed(now: now) }
    // For whom there is no room the next turn comes.
    _ = routineChecks.add(
      due.filter { turn.includes($0.id) || $0.notes.isUnchecked.load(ordering: .relaxed) })
    book.held(due)
    showCounts()
  }

  /// A share of the sessions may read the mailbox without being woken.
  func poll() {
    let (due, turn) = state.withLock { ($0.table.dueForPoll(), $0.polls.next()) }
    for session in due { session.polled(isDue: turn.includes(session.id)) }
  }

  // MARK: The end

  /// Refuses new sessions from now on.
  /// - Returns: those that are here, in random order.
  func beginDraining() -> [any LiveSession] {
    let sessions = state.withLock { state in
      state.isDraining = true
      return state.table.all
    }
    return (sessions as [any LiveSession] + registry.sessions).shuffled()
  }

  func settle(until deadline: ContinuousClock.Instant) async {
    await Pause.poll(every: .milliseconds(5), until: deadline) { connectionCount == 0 }
    await elsewhere.settle(until: deadline)
    await book.settle(until: deadline)
  }

  var steps: (renewal: Duration, poll: Duration, comparison: Duration) { (Self.renewalStep, pollStep, comparison) }

  /// Entries hold four times as long as a round takes.
  private static let renewalSteps = 15
  private static let renewalStep = Duration.seconds(1)
  /// A minute: as long as a change goes unseen whose signal was never sent.
  private static let roundsOfCheck = 4
  private static let pollStepsMax = 64
  private static let pollStepMin = Duration.milliseconds(20)
  private static let wakeUpsPerCall = 500
  /// Fresh messages wait for the page that is under way on their connection: some milliseconds.
  private static let freshBytesMax = 16 << 20
  /// The wake-ups of some busy seconds while Redis is slow.
  private static let wakeUpsMax = 20_000
}

extension Hub: LiveDevices {
  package func lookAgain(_ devices: [DeviceAddress]) async -> [DeviceAddress] {
    let (here, others) = split(devices)
    for session in here { session.woken() }
    guard !others.isEmpty else { return [] }
    let outcome = await presence.wake(others)
    return outcome.absent + outcome.unknown
  }
}
