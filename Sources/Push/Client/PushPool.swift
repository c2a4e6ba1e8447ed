import DequeModule
import NIOCore

/// A connection that carries requests. All of it happens on its event loop.
protocol PushConnection: AnyObject {
  /// Ends what has taken too long, the connection itself if it has been idle for long.
  /// - Returns: when to look again; nil if there is nothing to look for.
  func look(_ now: NIODeadline) -> NIODeadline?
  func giveUp(_ call: PushCall)
  func close()
}

/// The connections to one server, and the requests that wait for one. All of it happens on the loop of `pools`.
final class PushPool {
  let pools: PushPools
  let server: PushServer
  private var waiting: Deque<PushCall> = []
  private var openings: [ObjectIdentifier: PushOpening] = [:]
  private var connections: [ObjectIdentifier: any PushConnection] = [:]
  /// Of HTTP/1.1, without a request; the last one was used last.
  private var idle: [PushHTTP1] = []
  /// Of HTTP/2, unless it is about to end.
  private var multiplexed: PushHTTP2?

  init(of server: PushServer, in pools: PushPools) {
    self.server = server
    self.pools = pools
  }

  // MARK: Requests

  func begin(_ call: PushCall) {
    waiting.append(call)
    if let multiplexed {
      hasRoom(multiplexed)
    } else if let connection = takeIdle() {
      isFree(connection)
    } else {
      open()
    }
  }

  /// Sends out the bytes that were written to a connection of HTTP/2.
  func flush() { multiplexed?.flush() }

  func giveUp(_ call: PushCall) {
    guard !call.isOver else { return }
    waiting.removeAll { $0 === call }
    for connection in Array(connections.values) { connection.giveUp(call) }
  }

  func look(_ now: NIODeadline) -> NIODeadline? {
    for call in waiting where call.deadline <= now { call.end(.timedOut) }
    waiting.removeAll { $0.isOver }
    for opening in Array(openings.values) where opening.due <= now { opening.fail(ChannelError.connectTimeout(.zero)) }
    let dues =
      waiting.map(\.deadline) + openings.values.map(\.due) + Array(connections.values).compactMap { $0.look(now) }
    return dues.min()
  }

  func close() {
    for opening in Array(openings.values) { opening.fail(PushFailure.cancelled) }
    for connection in Array(connections.values) { connection.close() }
    for call in waiting { call.end(.cancelled) }
    waiting = []
  }

  private func takeIdle() -> PushHTTP1? {
    while let connection = idle.popLast() {
      if connection.isUsable { return connection }
    }
    return nil
  }

  /// The next one that waits.
  private func next() -> PushCall? {
    while let call = waiting.popFirst() {
      if !call.isOver { return call }
    }
    return nil
  }

  // MARK: Connections

  /// One for each request that waits, as far as may be.
  private func open() {
    let connectionsMax = pools.settings.speaksHTTP2 ? 1 : pools.settings.connectionsMax
    while multiplexed == nil, !pools.isClosed, openings.count < waiting.count,
      openings.count + connections.values.count(where: { $0 is PushHTTP1 }) < connectionsMax
    {
      let opening = PushOpening(of: self, due: .now() + TimeAmount(pools.settings.connectTimeout))
      openings[ObjectIdentifier(opening)] = opening
      opening.begin()
    }
  }

  func opened(_ connection: PushHTTP1, by opening: PushOpening) {
    openings[ObjectIdentifier(opening)] = nil
    connections[ObjectIdentifier(connection)] = connection
    isFree(connection)
  }

  func opened(_ connection: PushHTTP2, by opening: PushOpening) {
    openings[ObjectIdentifier(opening)] = nil
    connections[ObjectIdentifier(connection)] = connection
    multiplexed = connection
    hasRoom(connection)
    connection.flush()
  }

  /// There is no connection. One request is told so for each connection of HTTP/1.1, and all for that of HTTP/2, which
  /// would have carried all of them.
  func failed(_ opening: PushOpening, _ failure: PushFailure) {
    openings[ObjectIdentifier(opening)] = nil
    if pools.settings.speaksHTTP2 {
      while let call = next() { call.end(failure) }
    } else {
      next()?.end(failure)
      open()
    }
  }

  /// A connection of HTTP/1.1 has no request, or no longer.
  func isFree(_ connection: PushHTTP1) {
    // If it has closed meanwhile, it is about to say so.
    guard connection.isUsable else { return }
    if let call = next() { return connection.write(call) }
    idle.append(connection)
    pools.watch(until: .now() + TimeAmount(pools.settings.idleTimeout))
  }

  /// A connection of HTTP/2 takes as many of those that wait as it has room for.
  func hasRoom(_ connection: PushHTTP2) {
    guard multiplexed === connection else { return }
    while connection.hasRoom, let call = next() { connection.write(call) }
  }

  /// A connection of HTTP/2 takes no more requests.
  func isEnding(_ connection: PushHTTP2) {
    guard multiplexed === connection else { return }
    connection.flush()
    multiplexed = nil
    open()
  }

  /// A connection has closed.
  func closed(_ connection: any PushConnection) {
    connections[ObjectIdentifier(connection)] = nil
    idle.removeAll { $0 === connection }
    if multiplexed === connection { multiplexed = nil }
    open()
  }
}
