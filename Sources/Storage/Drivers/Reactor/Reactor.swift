// One thread that waits for sockets and timers: the home of C clients whose handles must stay on one thread. It knows
// nothing of what runs on it. Work comes in from anywhere through `submit`; everything else is for the thread itself.

import CLibPQ
import COpenSSL
import Glibc
import HeapModule
package import RelayCore
import Synchronization

/// An event loop on a thread of its own, over epoll.
///
/// Lives until `stop`: its thread keeps it. Handlers run one at a time and must not block for long; only libpq's
/// look-up of a name may, which delays nobody but the connections to PostgreSQL.
package final class Reactor: @unchecked Sendable {  // All mutable state but `inbox` is touched by the thread alone.
  /// The events that a descriptor is waited for, or ready for. An error or a hang-up makes it ready for both.
  package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    package static let read = Interest(rawValue: 1)
    package static let write = Interest(rawValue: 2)
  }

  /// A timer that can still be cancelled.
  package struct TimerID: Hashable, Sendable {
    fileprivate let value: UInt64
  }

  private let epoll: Int32
  private let wakeUp: Int32
  private let inbox = Mutex(Inbox())
  private let threadID = Atomic<UInt>(0)

  private var watches: [Int32: Watch] = [:]
  private var timers = Heap<Deadline>()
  private var timerWork: [TimerID: () -> Void] = [:]
  private var roundWork: [() -> Void] = []
  private var lastID: UInt64 = 0

  /// Starts the thread.
  /// - Parameter name: what tools show for the thread; its first 15 bytes count.
  /// - Throws: `.unavailable` when the system has no descriptor or thread left.
  package init(name: String) throws(StoreError) {
    _ = Self.keepsOpenSSL
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard epoll >= 0 else { throw Self.systemFailure("epoll_create1") }
    wakeUp = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
    guard wakeUp >= 0 else {
      let failure = Self.systemFailure("eventfd")
      close(epoll)
      throw failure
    }
    control(EPOLL_CTL_ADD, Watch(descriptor: wakeUp, generation: 0, interest: .read, handler: { _ in }))
    try OwnThread.start(name: name) { [self] in run() }
  }

  deinit {
    close(wakeUp)
    close(epoll)
  }

  /// `exit` may run while this thread still closes its connections. OpenSSL would free then what they use.
  private static let keepsOpenSSL = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1

  private static func systemFailure(_ call: String) -> StoreError {
    .unavailable(reason: "\(call) failed with errno \(errno)")
  }
}

// MARK: - From anywhere

extension Reactor {
  /// Runs `work` on the thread, in the order of submission. A burst costs one wake-up.
  /// - Returns: false, and `work` never runs, when the reactor was told to stop.
  package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
    let mustWake: Bool? = inbox.withLock { inbox in
      guard !inbox.isStopping else { return nil }
      inbox.work.append(work)
      return inbox.work.count == 1
    }
    guard let mustWake else { return false }
    if mustWake { wake() }
    return true
  }

  /// Runs what was submitted before, then ends the thread. Returns when it has ended; may be called again.
  package func stop() async {
    await withCheckedContinuation { continuation in
      let isOver = inbox.withLock { inbox in
        inbox.isStopping = true
        if !inbox.isStopped { inbox.waitingForStop.append(continuation) }
        return inbox.isStopped
      }
      if isOver { continuation.resume() } else { wake() }
    }
  }

  /// Whether the caller is on the reactor's thread.
  package var isCurrent: Bool { threadID.load(ordering: .relaxed) == UInt(pthread_self()) }

  private func wake() {
    var one: UInt64 = 1
    // Fails only when the counter is full, and then the thread is awake already.
    _ = write(wakeUp, &one, 8)
  }
}

// MARK: - On the thread

extension Reactor {
  /// Calls `handler` whenever `descriptor` is ready for something of `interest`, until `unwatch`.
  ///
  /// Level-triggered: it is called again as long as the descriptor stays ready. An empty interest still reports errors.
  package func watch(_ descriptor: Int32, for interest: Interest, handler: @escaping (Interest) -> Void) {
    preconditionCurrent()
    let generation = UInt32(truncatingIfNeeded: nextID())
    let watch = Watch(descriptor: descriptor, generation: generation, interest: interest, handler: handler)
    let isNew = watches.updateValue(watch, forKey: descriptor) == nil
    control(isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch)
  }

  /// Changes what a watched descriptor is waited for; free when nothing changes.
  package func update(_ descriptor: Int32, for interest: Interest) {
    preconditionCurrent()
    guard var watch = watches[descriptor], watch.interest != interest else { return }
    watch.interest = interest
    watches[descriptor] = watch
    control(EPOLL_CTL_MOD, watch)
  }

  /// Forgets `descriptor`; its handler is not called again. To be called before the descriptor is closed.
  package func unwatch(_ descriptor: Int32) {
    preconditionCurrent()
    guard watches.removeValue(forKey: descriptor) != nil else { return }
    // A descriptor that its client closed before is gone from epoll already: the failure says nothing new.
    _ = epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, nil)
  }

  /// Runs `work` once, `delay` from now or a little later.
  @discardableResult
  package func schedule(after delay: Duration, _ work: @escaping () -> Void) -> TimerID {
    preconditionCurrent()
    let id = TimerID(value: nextID())
    timerWork[id] = work
    timers.insert(Deadline(instant: .now + delay, id: id))
    return id
  }

  /// Forgets a timer; does nothing when it has run.
  package func cancel(_ timer: TimerID) {
    preconditionCurrent()
    timerWork[timer] = nil
  }

  /// Runs `work` once, when everything that this wake-up brought has been handled.
  ///
  /// This is where a client flushes: many submissions of one burst then share one system call.
  package func afterRound(_ work: @escaping () -> Void) {
    preconditionCurrent()
    roundWork.append(work)
  }

  private func preconditionCurrent() { precondition(isCurrent, "called off the reactor's thread") }

  private func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }

  private func control(_ operation: Int32, _ watch: Watch) {
    var event = epoll_event(events: watch.events, data: epoll_data_t(u64: watch.mark))
    var code = epoll_ctl(epoll, operation, watch.descriptor, &event)
    // The client may have closed the descriptor and got its number again: epoll then forgot the old one.
    if code != 0, errno == ENOENT { code = epoll_ctl(epoll, EPOLL_CTL_ADD, watch.descriptor, &event) }
    precondition(code == 0, "epoll_ctl refused a descriptor, errno \(errno)")
  }
}

// MARK: - The loop

extension Reactor {
  private func run() {
    threadID.store(UInt(pthread_self()), ordering: .relaxed)
    var events = [epoll_event](repeating: epoll_event(), count: 64)
    while true {
      let count = Int(epoll_wait(epoll, &events, Int32(events.count), millisToNextTimer()))
      // Interrupted by a signal: nothing is ready, the timers may be.
      var isWoken = false
      for event in events.prefix(max(0, count)) {
        if event.data.u64 == UInt64(wakeUp) { isWoken = true } else { dispatch(event) }
      }
      runTimers()
      let mustStop = isWoken && drainInbox()
      while !roundWork.isEmpty {
        let work = roundWork
        roundWork.removeAll(keepingCapacity: true)
        for item in work { item() }
      }
      if mustStop { return finish() }
    }
  }

  /// A descriptor that was unwatched, or watched anew, earlier in this round gets nothing meant for the one before.
  private func dispatch(_ event: epoll_event) {
    let descriptor = Int32(truncatingIfNeeded: event.data.u64)
    guard let watch = watches[descriptor], watch.mark == event.data.u64 else { return }
    watch.handler(watch.readiness(of: event.events))
  }

  private func runTimers() {
    let now = ContinuousClock.Instant.now
    while let next = timers.min, next.instant <= now {
      timers.removeMin()
      timerWork.removeValue(forKey: next.id)?()
    }
  }

  /// - Returns: -1 when there is no timer.
  private func millisToNextTimer() -> Int32 {
    while let next = timers.min, timerWork[next.id] == nil { timers.removeMin() }
    guard let next = timers.min else { return -1 }
    let wait = ContinuousClock.Instant.now.duration(to: next.instant)
    guard wait > .zero else { return 0 }
    // Rounded up, or the thread would spin through the last millisecond.
    return Int32(clamping: Int64((wait / .milliseconds(1)).rounded(.up)))
  }

  /// - Returns: whether the reactor was told to stop.
  private func drainInbox() -> Bool {
    var count: UInt64 = 0
    // Read before the inbox is emptied: what is submitted after that wakes again.
    _ = read(wakeUp, &count, 8)
    let (work, isStopping) = inbox.withLock { inbox in
      defer { inbox.work = [] }
      return (inbox.work, inbox.isStopping)
    }
    for item in work { item() }
    return isStopping
  }

  private func finish() {
    watches = [:]
    timerWork = [:]
    let waiting = inbox.withLock { inbox in
      inbox.isStopped = true
      defer { inbox.waitingForStop = [] }
      return inbox.waitingForStop
    }
    for continuation in waiting { continuation.resume() }
  }
}

private struct Inbox {
  var work: [@Sendable () -> Void] = []
  var isStopping = false
  var isStopped = false
  var waitingForStop: [CheckedContinuation<Void, Never>] = []
}

private struct Watch {
  let descriptor: Int32
  /// Tells apart those who watched the same descriptor one after the other; 0 is the wake-up's alone.
  let generation: UInt32
  var interest: Reactor.Interest
  let handler: (Reactor.Interest) -> Void

  /// The mark that epoll returns with an event.
  var mark: UInt64 { UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor)) }

  var events: UInt32 {
    (interest.contains(.read) ? EPOLLIN.rawValue : 0) | (interest.contains(.write) ? EPOLLOUT.rawValue : 0)
  }

  func readiness(of events: UInt32) -> Reactor.Interest {
    if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { return [.read, .write] }
    var ready: Reactor.Interest = []
    if events & EPOLLIN.rawValue != 0 { ready.insert(.read) }
    if events & EPOLLOUT.rawValue != 0 { ready.insert(.write) }
    return ready
  }
}

private struct Deadline: Comparable {
  let instant: ContinuousClock.Instant
  let id: Reactor.TimerID
  static func < (a: Self, b: Self) -> Bool { a.instant < b.instant }
}
