// A way to a server that breaks: at a byte, not at the end of a message.

import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// Carries TCP connections from a port of the loopback address to another, and cuts them.
package final class CuttingProxy: Sendable {
  /// How a connection breaks.
  package enum Cut: CaseIterable, Sendable {
    /// By FIN, behind the last byte.
    case end
    /// By RST: what was under way is gone.
    case reset
    /// Both sides stay open, and hear nothing more from each other, not even the end.
    case silence
  }

  package let port: Int
  private let listener: any Channel
  private let state: Shared

  fileprivate final class Shared: Sendable {
    private struct State {
      var random: SeededGenerator
      var target: Int?
      var budgets: ClosedRange<Int>?
      /// The clients' sides.
      var open: [ObjectIdentifier: any Channel] = [:]
      var cuts: [Cut: Int] = [:]
    }

    private let state: Mutex<State>
    init(to target: Int, seed: UInt64) {
      state = Mutex(State(random: SeededGenerator(seed: seed), target: target))
    }

    var target: Int? {
      get { state.withLock { $0.target } }
      set { state.withLock { $0.target = newValue } }
    }

    /// How many bytes a new connection may carry.
    func budget() -> Int {
      state.withLock { state in state.budgets.map { Int.random(in: $0, using: &state.random) } ?? .max }
    }
    func set(_ budgets: ClosedRange<Int>?) { state.withLock { $0.budgets = budgets } }
    func add(_ channel: any Channel) { state.withLock { $0.open[ObjectIdentifier(channel)] = channel } }
    func remove(_ channel: any Channel) {
      state.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(channel)) }
    }
    /// One of ten falls silent: it costs everybody the time until they notice.
    func drawCut() -> Cut {
      state.withLock { state in
        switch Int.random(in: 0..<10, using: &state.random) {
        case 0: .silence
        case 1...3: .reset
        default: .end
        }
      }
    }
    func count(_ cut: Cut) { state.withLock { $0.cuts[cut, default: 0] += 1 } }
    var cuts: [Cut: Int] { state.withLock { $0.cuts } }
    var all: [any Channel] { state.withLock { Array($0.open.values) } }
  }

  /// - Parameters:
  ///   - target: a port of the loopback address; nobody needs to listen there yet.
  ///   - seed: of the numbers of bytes.
  package init(to target: Int, seed: UInt64) async throws {
    let shared = Shared(to: target, seed: seed)
    listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { client in
        guard let target = shared.target else { return client.close() }
        return ClientBootstrap(group: client.eventLoop).channelOption(.autoRead, value: false)
          .connect(host: "127.0.0.1", port: target)
          .flatMapThrowing { server in try Splice.join(client, server, shared) }
          .flatMapError { _ in client.close() }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    guard let port = listener.localAddress?.port else { throw TestFailure("the proxy has no port") }
    self.port = port
    state = shared
  }

  /// From now on each new connection is cut after so many bytes, both ways together; nil lets them be.
  package func cut(after bytes: ClosedRange<Int>?) { state.set(bytes) }

  /// Leads new connections to another port of the loopback address, as a name does that moves; nil ends them at once.
  package func lead(to target: Int?) { state.target = target }

  /// Ends every connection, wherever it is.
  package func cutAll() {
    for channel in state.all {
      state.count(.end)
      channel.close(promise: nil)
    }
  }

  /// How many connections were cut so far, and how.
  package var cuts: [Cut: Int] { state.cuts }

  package func close() async throws {
    try await listener.close().get()
    for channel in state.all { channel.close(promise: nil) }
  }
}

/// One side of a connection through the proxy: what comes in here goes out on the other side.
private final class Splice: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// The bytes that both directions may carry together.
  final class Budget {
    var left: Int
    var isSilent = false
    init(_ bytes: Int) { left = bytes }
  }

  private let other: any Channel
  private let budget: Budget
  private let shared: CuttingProxy.Shared

  private init(to other: any Channel, _ budget: Budget, _ shared: CuttingProxy.Shared) {
    self.other = other
    self.budget = budget
    self.shared = shared
  }

  /// On their event loop.
  static func join(_ client: any Channel, _ server: any Channel, _ shared: CuttingProxy.Shared) throws {
    let budget = Budget(shared.budget())
    try client.pipeline.syncOperations.addHandler(Splice(to: server, budget, shared))
    try server.pipeline.syncOperations.addHandler(Splice(to: client, budget, shared))
    shared.add(client)
    client.closeFuture.whenComplete { _ in shared.remove(client) }
    for channel in [client, server] {
      channel.setOption(.autoRead, value: true).whenFailure { _ in channel.close(promise: nil) }
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    guard budget.left > 0 else { return }  // Cut already: what still comes goes nowhere.
    let count = min(budget.left, bytes.readableBytes)
    budget.left -= count
    guard let part = bytes.readSlice(length: count) else { return }
    guard budget.left == 0 else { return other.write(part, promise: nil) }
    let cut = shared.drawCut()
    shared.count(cut)
    let channel = context.channel
    switch cut {
    case .end:
      other.writeAndFlush(part).whenComplete { [other] _ in
        other.close(promise: nil)
        channel.close(promise: nil)
      }
    case .reset:
      for one in [other, channel] { Self.reset(one) }
    case .silence:
      budget.isSilent = true
      other.writeAndFlush(part, promise: nil)
    }
  }

  /// A connection that does not linger is closed by RST.
  private static func reset(_ channel: any Channel) {
    guard let options = channel as? any SocketOptionProvider else { return channel.close(promise: nil) }
    options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in channel.close(promise: nil) }
  }

  func channelReadComplete(context: ChannelHandlerContext) { other.flush() }

  /// This side takes no more: neither does the other.
  func channelWritabilityChanged(context: ChannelHandlerContext) {
    other.setOption(.autoRead, value: context.channel.isWritable).whenFailure { [other] _ in other.close(promise: nil) }
    context.fireChannelWritabilityChanged()
  }

  func channelInactive(context: ChannelHandlerContext) {
    if !budget.isSilent { other.close(promise: nil) }
  }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
