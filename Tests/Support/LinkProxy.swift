// What lies between two parties: a way for TCP connections that is cut, slow or lossy in one direction or both.

import NIOCore
import NIOPosix
import Synchronization

/// Carries TCP connections from a port of the loopback address to another, as badly as it is told to.
///
/// Unlike `CuttingProxy` it breaks nothing by itself: bytes that cannot pass wait, as TCP would send them again, and pass
/// when the way is whole. At most `waitingBytesMax` of a direction wait here; the rest waits at whoever sends it.
package final class LinkProxy: Sendable {
  /// What happens to the bytes of one direction.
  package enum Weather: Sendable, Equatable {
    case whole
    /// Nothing passes, not even the end of a connection.
    case cut
    case late(Duration)
    /// This share of the segments is lost, and comes by a retransmission; what is behind it waits for it.
    case lossy(Double)
  }

  package enum Direction: Sendable, CaseIterable {
    /// From who connected.
    case there
    /// To who connected.
    case back
  }

  package let port: Int
  private let listener: any Channel
  private let state: Shared

  fileprivate final class Shared: Sendable {
    private struct State {
      var target: Int
      var weather: [Direction: Weather] = [:]
      /// Both sides of all connections, and what hands on to each what waits for it.
      var ends: [ObjectIdentifier: (channel: any Channel, pump: @Sendable () -> Void)] = [:]
      var random: SeededGenerator
    }
    private let state: Mutex<State>
    init(target: Int, seed: UInt64) { state = Mutex(State(target: target, random: SeededGenerator(seed: seed))) }

    var target: Int {
      get { state.withLock { $0.target } }
      set { state.withLock { $0.target = newValue } }
    }
    func weather(_ direction: Direction) -> Weather { state.withLock { $0.weather[direction] ?? .whole } }
    func set(_ weather: Weather, _ directions: [Direction]) {
      let pumps = state.withLock { state in
        for direction in directions { state.weather[direction] = weather }
        return state.ends.values.map(\.pump)
      }
      for pump in pumps { pump() }
    }
    func isLost(_ share: Double) -> Bool {
      state.withLock { Double.random(in: 0..<1, using: &$0.random) < share }
    }
    func add(_ channel: any Channel, pump: @escaping @Sendable () -> Void) {
      state.withLock { $0.ends[ObjectIdentifier(channel)] = (channel, pump) }
    }
    func remove(_ channel: any Channel) {
      state.withLock { _ = $0.ends.removeValue(forKey: ObjectIdentifier(channel)) }
    }
    func pump(_ channel: any Channel) { state.withLock { $0.ends[ObjectIdentifier(channel)]?.pump }?() }
    var all: [any Channel] { state.withLock { $0.ends.values.map(\.channel) } }
  }

  /// - Parameter target: a port of the loopback address; nobody needs to listen there yet.
  package init(to target: Int, seed: UInt64 = 1) async throws {
    let shared = Shared(target: target, seed: seed)
    listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { client in
        ClientBootstrap(group: client.eventLoop).channelOption(.autoRead, value: false)
          .connect(host: "127.0.0.1", port: shared.target)
          .flatMapThrowing { server in try LinkEnd.join(client, server, shared) }
          .flatMapError { _ in client.close() }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    guard let port = listener.localAddress?.port else { throw TestFailure("the proxy has no port") }
    self.port = port
    state = shared
  }

  /// Where new connections go from now on.
  package func lead(to target: Int) { state.target = target }

  package func set(_ weather: Weather, _ directions: [Direction] = Direction.allCases) {
    state.set(weather, directions)
  }

  /// Ends every connection.
  package func endAll() { for channel in state.all { channel.close(promise: nil) } }

  package func close() async throws {
    try await listener.close().get()
    endAll()
  }
}

/// One side of a connection: what comes in here goes out on the other side, in its order, when it may.
private final class LinkEnd: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private struct Segment {
    let bytes: ByteBuffer
    let due: NIODeadline
  }

  private let channel: any Channel
  private let other: any Channel
  private let direction: LinkProxy.Direction
  private let shared: LinkProxy.Shared
  private var waiting: [Segment] = []
  private var waitingBytes = 0
  private var hasEnded = false
  private var isReading = true
  private var timer: Scheduled<Void>?
  private static let waitingBytesMax = 1 << 20
  private static let retransmission: ClosedRange<Int64> = 200...400

  private init(
    _ channel: any Channel, to other: any Channel, _ direction: LinkProxy.Direction, _ shared: LinkProxy.Shared
  ) {
    self.channel = channel
    self.other = other
    self.direction = direction
    self.shared = shared
  }

  /// On their event loop.
  static func join(_ client: any Channel, _ server: any Channel, _ shared: LinkProxy.Shared) throws {
    for (end, other, direction) in [(client, server, LinkProxy.Direction.there), (server, client, .back)] {
      let handler = LinkEnd(end, to: other, direction, shared)
      try end.pipeline.syncOperations.addHandler(handler)
      let bound = NIOLoopBound(handler, eventLoop: end.eventLoop)
      // For as long as there is somebody to hand on to.
      shared.add(other) { other.eventLoop.execute { bound.value.pump() } }
      other.closeFuture.whenComplete { _ in shared.remove(other) }
    }
    for end in [client, server] {
      end.setOption(.autoRead, value: true).whenFailure { _ in end.close(promise: nil) }
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    var due = NIODeadline.now()
    switch shared.weather(direction) {
    case .whole, .cut: break
    case .late(let time): due = due + .nanoseconds(Int64(time / .nanoseconds(1)))
    case .lossy(let share):
      if shared.isLost(share) { due = due + .milliseconds(Int64.random(in: Self.retransmission)) }
    }
    waiting.append(Segment(bytes: bytes, due: due))
    waitingBytes += bytes.readableBytes
    pump()
  }

  /// Hands on what may pass by now.
  private func pump() {
    guard shared.weather(direction) != .cut else { return mayRead() }
    let now = NIODeadline.now()
    var count = 0
    while count < waiting.count, waiting[count].due <= now, other.isWritable {
      waitingBytes -= waiting[count].bytes.readableBytes
      other.write(waiting[count].bytes, promise: nil)
      count += 1
    }
    if count > 0 {
      waiting.removeFirst(count)
      other.flush()
    }
    if let next = waiting.first, next.due > now {
      if timer == nil {
        timer = channel.eventLoop.assumeIsolated().scheduleTask(deadline: next.due) { [self] in
          timer = nil
          pump()
        }
      }
    } else if waiting.isEmpty, hasEnded {
      other.close(promise: nil)
    }
    mayRead()
  }

  /// Who sends is held up while too much waits.
  private func mayRead() {
    let mayRead = waitingBytes < Self.waitingBytesMax
    guard mayRead != isReading, channel.isActive else { return }
    isReading = mayRead
    channel.setOption(.autoRead, value: mayRead).whenFailure { [channel] _ in channel.close(promise: nil) }
  }

  /// This side takes more again: what waits for it can go on.
  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable { shared.pump(context.channel) }
    context.fireChannelWritabilityChanged()
  }

  func channelInactive(context: ChannelHandlerContext) {
    hasEnded = true
    pump()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
