import NIOCore
import Synchronization

/// All connections of a client, on one event loop: what is decided there needs no lock, and requests that come
/// meanwhile are written together.
final class PushPools: @unchecked Sendable {  // All mutable state but `inbox` belongs to the loop.
  let settings: PushClient.Settings
  let tls: PushTLS
  let end: PushConnectionEnd
  let loop: any EventLoop
  /// On their way to the loop.
  private let inbox = Mutex<[PushCall]>([])
  private var pools: [PushServer: PushPool] = [:]
  private var timer: (due: NIODeadline, task: Scheduled<Void>)?
  private(set) var isClosed = false

  init(_ settings: PushClient.Settings, _ tls: PushTLS, _ end: PushConnectionEnd, on loop: any EventLoop) {
    self.settings = settings
    self.tls = tls
    self.end = end
    self.loop = loop
  }

  // MARK: From anywhere

  func take(_ call: PushCall) {
    let isFirst = inbox.withLock { calls in
      calls.append(call)
      return calls.count == 1
    }
    if isFirst { loop.execute { self.begin() } }
  }

  /// Nobody waits for the answer any more.
  func giveUp(_ call: PushCall) {
    loop.execute { self.pools[call.url.server]?.giveUp(call) }
  }

  func close() {
    loop.execute {
      self.isClosed = true
      self.timer?.task.cancel()
      self.timer = nil
      for pool in self.pools.values { pool.close() }
      self.pools = [:]
    }
  }

  // MARK: On the loop

  private func begin() {
    let calls = inbox.withLock { calls in
      defer { calls = [] }
      return calls
    }
    for call in calls {
      watch(until: call.deadline)
      pool(of: call.url.server).begin(call)
    }
    for pool in pools.values { pool.flush() }
  }

  private func pool(of server: PushServer) -> PushPool {
    if let pool = pools[server] { return pool }
    let pool = PushPool(of: server, in: self)
    pools[server] = pool
    return pool
  }

  /// One timer for all deadlines, which nearly all requests are done before: it is set again when it has passed, for
  /// what is left by then. - Parameter due: when something is to be looked for.
  func watch(until due: NIODeadline) {
    if let timer, timer.due <= due { return }
    guard !isClosed else { return }
    timer?.task.cancel()
    timer = (due, loop.assumeIsolated().scheduleTask(deadline: due) { self.look() })
  }

  private func look() {
    timer = nil
    let now = NIODeadline.now()
    if let next = pools.values.compactMap({ $0.look(now) }).min() { watch(until: next) }
  }
}
