// One thread that waits for many sockets: links carry all traffic of a campaign, and an event loop of NIO costs several
// times as much in a debug build.

// Imported for the declarations of epoll alone.
import CLibPQ
import Foundation
import Glibc
import Synchronization

/// Waits for sockets on a thread of its own, and calls their sources there.
final class LinkLoop: @unchecked Sendable {  // All mutable state but `inbox` belongs to the thread.
  protocol Source: AnyObject {
    /// The socket is ready for what it was watched for, or has failed.
    func ready(_ events: UInt32)
    /// Called every `tick` while the source waits for time to pass.
    func ticked()
  }

  static let shared = Result { try LinkLoop() }

  private let descriptor: Int32
  private let wakeUp: Int32
  private let inbox = Mutex<[@Sendable () -> Void]>([])
  /// By a number that is never used again: an event of a socket that is gone meets nobody.
  private var sources: [UInt64: any Source] = [:]
  private var last: UInt64 = 0
  private var waiting: [UInt64: any Source] = [:]
  private var ticked = ContinuousClock.now

  private static let tick = Duration.milliseconds(2)
  private static let eventsMax = 256

  private init() throws {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    wakeUp = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard descriptor >= 0, wakeUp >= 0 else { throw TestFailure("no epoll: errno \(errno)") }
    watch(wakeUp, 0, EPOLL_CTL_ADD, EPOLLIN.rawValue)
    Thread.detachNewThread { [self] in run() }
  }

  /// Runs `work` on the thread, behind what was submitted before.
  func submit(_ work: @escaping @Sendable () -> Void) {
    let isFirst = inbox.withLock { inbox in
      inbox.append(work)
      return inbox.count == 1
    }
    var one: UInt64 = 1
    // A full counter wakes the thread as well.
    if isFirst { _ = write(wakeUp, &one, 8) }
  }

  // MARK: On the thread

  /// - Returns: what the socket is called from now on.
  func add(_ socket: Int32, _ source: any Source, for events: UInt32) -> UInt64 {
    last += 1
    sources[last] = source
    watch(socket, last, EPOLL_CTL_ADD, events)
    return last
  }

  func change(_ socket: Int32, _ id: UInt64, to events: UInt32) { watch(socket, id, EPOLL_CTL_MOD, events) }

  /// The source is not called until `watchAgain`, not even for an end of the connection, which epoll always reports.
  func ignore(_ socket: Int32) {
    _ = epoll_ctl(descriptor, EPOLL_CTL_DEL, socket, nil)  // It is watched: nothing can fail.
  }
  func watchAgain(_ socket: Int32, _ id: UInt64, for events: UInt32) { watch(socket, id, EPOLL_CTL_ADD, events) }

  /// Closes the socket.
  func remove(_ socket: Int32, _ id: UInt64) {
    sources[id] = nil
    waiting[id] = nil
    close(socket)
  }

  func setWaiting(_ isWaiting: Bool, _ id: UInt64) { waiting[id] = isWaiting ? sources[id] : nil }

  private func watch(_ socket: Int32, _ id: UInt64, _ operation: Int32, _ events: UInt32) {
    var event = epoll_event(events: events, data: epoll_data_t(u64: id))
    _ = epoll_ctl(descriptor, operation, socket, &event)  // It can fail for want of memory alone.
  }

  private func run() {
    var events = [epoll_event](repeating: epoll_event(), count: Self.eventsMax)
    while true {
      let patience: Int32 = waiting.isEmpty ? -1 : 2
      let count = Int(epoll_wait(descriptor, &events, Int32(Self.eventsMax), patience))
      for event in events.prefix(max(0, count)) {
        if event.data.u64 == 0 { takeInbox() } else { sources[event.data.u64]?.ready(event.events) }
      }
      if !waiting.isEmpty, ContinuousClock.now - ticked >= Self.tick {
        ticked = .now
        for source in waiting.values { source.ticked() }
      }
    }
  }

  private func takeInbox() {
    var counter: UInt64 = 0
    _ = read(wakeUp, &counter, 8)  // Its value says nothing.
    let work = inbox.withLock { inbox in
      defer { inbox.removeAll() }
      return inbox
    }
    for item in work { item() }
  }
}
