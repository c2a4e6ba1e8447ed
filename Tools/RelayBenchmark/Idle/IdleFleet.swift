import DequeModule
import NIOCore
import NIOPosix
import Synchronization

/// Many devices, each with one WebSocket that it opens again, without a pause, whenever it has ended.
///
/// They do nothing else, but for a ping now and then, as clients send them.
final class IdleFleet: Sendable {
  private let shares: [NIOLoopBound<FleetShare>]
  private let counts = FleetCounts()
  private let size: Int

  /// How many connections are being opened at any moment.
  static let openingsMax = 256

  /// Begins to connect all `devices`.
  /// - Parameters:
  ///   - tickets: the devices resume their TLS sessions by these; nil: `target` says what secures them.
  ///   - pingSeconds: from one ping of a device to its next.
  init(
    _ devices: IdleDevices, to target: SocketTarget, tickets: DeviceTickets? = nil, pingSeconds: Int = 30,
    on loops: [any EventLoop]
  ) async throws {
    size = devices.count
    var shares: [NIOLoopBound<FleetShare>] = []
    for (place, loop) in loops.enumerated() {
      shares.append(
        try await loop.submit { [counts] in
          let share = FleetShare(
            devices, indices: stride(from: place, to: devices.count, by: loops.count), target, tickets, counts,
            openingsMax: max(1, Self.openingsMax / loops.count), pingSeconds: pingSeconds, on: loop)
          share.begin()
          return NIOLoopBound(share, eventLoop: loop)
        }.get())
    }
    self.shares = shares
  }

  /// WebSockets opened so far.
  var openedCount: Int { counts.opened.load(ordering: .acquiring) }
  var openCount: Int { counts.open.load(ordering: .acquiring) }

  /// Waits until every device is connected and `opened` connections have been opened altogether.
  /// - Throws: `BenchmarkFailure` with the last reason when that takes longer than `limit`.
  func allOpen(opened: Int, within limit: Duration) async throws {
    let deadline = ContinuousClock.now + limit
    while openedCount < opened || openCount < size {
      guard ContinuousClock.now < deadline else {
        throw BenchmarkFailure(
          "\(openCount) of \(size) WebSockets are open after \(limit)" + (counts.lastFailure.map { ": \($0)" } ?? ""))
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  /// From now on all that connect go to `target`.
  func turn(to target: SocketTarget) async throws {
    for share in shares { try await share.eventLoop.submit { share.value.target = target }.get() }
  }

  /// Begins to cut all connections that are open now, evenly over `window` and in no order of the devices.
  func cut(over window: Duration) async throws {
    for share in shares { try await share.eventLoop.submit { share.value.cut(over: TimeAmount(window)) }.get() }
  }

  /// Connects no more, and closes what is open.
  func stop() async throws {
    for share in shares { try await share.eventLoop.submit { share.value.stop() }.get() }
  }
}

/// The common counts of a fleet's shares.
final class FleetCounts: Sendable {
  let open = Atomic(0)
  let opened = Atomic(0)
  private let failure = Mutex<String?>(nil)

  /// Why a connection could not be opened; nil while all could.
  var lastFailure: String? { failure.withLock { $0 } }
  func failed(_ reason: String) { failure.withLock { $0 = reason } }
}

/// The part of a fleet that one event loop owns.
final class FleetShare {
  private static let pause = TimeAmount.milliseconds(20)
  /// Each address has some 28,000 ports that the system gives out, and it seeks long once half of them are taken.
  private static let connectionsOfAddress = 10_000

  fileprivate var target: SocketTarget
  private let devices: IdleDevices
  private let tickets: DeviceTickets?
  private let counts: FleetCounts
  private let openingsMax: Int
  private let pingSeconds: Int
  private let loop: any EventLoop
  private var waiting: Deque<Int>
  private var channels: [Int: any Channel] = [:]
  private var opening = 0
  /// The last opening failed: until one succeeds they are tried one by one.
  private var isAlone = false
  private var round = 0
  private var isStopped = false

  init(
    _ devices: IdleDevices, indices: some Sequence<Int>, _ target: SocketTarget, _ tickets: DeviceTickets?,
    _ counts: FleetCounts, openingsMax: Int, pingSeconds: Int, on loop: any EventLoop
  ) {
    self.devices = devices
    self.target = target
    self.tickets = tickets
    self.counts = counts
    self.openingsMax = openingsMax
    self.pingSeconds = pingSeconds
    self.loop = loop
    waiting = Deque(indices)
  }

  func begin() {
    openMore()
    pingLater()
  }

  func stop() {
    isStopped = true
    for channel in channels.values { channel.close(promise: nil) }
  }

  func cut(over window: TimeAmount) {
    let present = Array(channels.values)
    for (place, channel) in present.enumerated() {
      let delay = TimeAmount.nanoseconds(window.nanoseconds / Int64(present.count) * Int64(place))
      loop.assumeIsolated().scheduleTask(in: delay) { channel.close(promise: nil) }
    }
  }

  private func openMore() {
    while !isStopped, opening < (isAlone ? 1 : openingsMax), let index = waiting.popFirst() {
      opening += 1
      open(index).assumeIsolated().whenComplete { self.opened(index, $0) }
    }
  }

  private func open(_ index: Int) -> EventLoopFuture<any Channel> {
    do {
      // Never the address of the relay: so no device takes its port while it is gone.
      let address = "127.0.0.\(2 + index / Self.connectionsOfAddress)"
      let source = try SocketAddress(ipAddress: address, port: 0)
      let securing = tickets.map { tickets in { @Sendable in try tickets.handler(for: index) } }
      return target.open(devices.login(index), on: loop, from: source, securedBy: securing) { IdleSocket() }
    } catch {
      return loop.makeFailedFuture(error)
    }
  }

  private func opened(_ index: Int, _ result: Result<any Channel, any Error>) {
    opening -= 1
    switch result {
    case .success(let channel):
      isAlone = false
      guard !isStopped else { return channel.close(promise: nil) }
      channels[index] = channel
      counts.open.add(1, ordering: .acquiringAndReleasing)
      counts.opened.add(1, ordering: .acquiringAndReleasing)
      channel.closeFuture.assumeIsolated().whenComplete { _ in self.ended(index) }
      openMore()
    case .failure(let error):
      counts.failed("\(error)")
      isAlone = true
      waiting.append(index)
      loop.assumeIsolated().scheduleTask(in: Self.pause) { self.openMore() }
    }
  }

  private func ended(_ index: Int) {
    channels[index] = nil
    counts.open.subtract(1, ordering: .acquiringAndReleasing)
    waiting.append(index)
    openMore()
  }

  /// Each second a share of them.
  private func pingLater() {
    loop.assumeIsolated().scheduleTask(in: .seconds(1)) {
      guard !self.isStopped else { return }
      self.round = (self.round + 1) % self.pingSeconds
      for (index, channel) in self.channels where index / 2 % self.pingSeconds == self.round {
        channel.writeAndFlush(IdleSocket.ping, promise: nil)
      }
      self.pingLater()
    }
  }
}
