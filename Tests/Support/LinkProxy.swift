// A link between two parties: a way for TCP connections that is cut, slow or lossy in one direction or both.

import CLibPQ
import Glibc

/// Carries TCP connections from a port of the loopback address to another, as badly as it is told to.
///
/// Unlike `CuttingProxy` it breaks nothing by itself: bytes that cannot pass wait, as TCP would send them again, and
/// pass when the way is whole. At most `Link.waitingBytesMax` of a direction wait here; the rest waits at whoever
/// sends it.
package final class LinkProxy: Sendable {
  /// The treatment of the bytes of one direction.
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
  private let loop: LinkLoop
  private let door: LinkDoor

  /// - Parameter target: a port of the loopback address; nobody needs to listen there yet.
  package init(to target: Int, seed: UInt64 = 1) async throws {
    let loop = try LinkLoop.shared.get()
    let (descriptor, port) = try Loopback.listen()
    self.loop = loop
    self.port = port
    let door = LinkDoor(descriptor, to: target, seed: seed, loop)
    self.door = door
    loop.submit { door.open() }
  }

  /// Sets the target of new connections from now on.
  package func lead(to target: Int) { loop.submit { [door] in door.target = target } }

  package func set(_ weather: Weather, _ directions: [Direction] = Direction.allCases) {
    loop.submit { [door] in door.set(weather, directions) }
  }

  /// Ends every connection.
  package func endAll() { loop.submit { [door] in door.endAll() } }

  package func close() async throws {
    await withCheckedContinuation { done in
      loop.submit { [door] in
        door.close()
        done.resume()
      }
    }
  }
}

/// Takes a proxy's connections.
private final class LinkDoor: LinkLoop.Source, @unchecked Sendable {  // All its state belongs to the loop's thread.
  var target: Int
  private let listener: Int32
  private let loop: LinkLoop
  private var id: UInt64?
  private var weather: [LinkProxy.Direction: LinkProxy.Weather] = [:]
  private var random: SeededGenerator
  private var links: [ObjectIdentifier: Link] = [:]

  init(_ listener: Int32, to target: Int, seed: UInt64, _ loop: LinkLoop) {
    self.listener = listener
    self.target = target
    self.loop = loop
    random = SeededGenerator(seed: seed)
  }

  func open() {
    LinkSocket.prepare(listener)
    _ = listen(listener, 1024)  // It listens already; this only makes the queue longer.
    id = loop.add(listener, self, for: EPOLLIN.rawValue)
  }

  func ready(_ events: UInt32) {
    while true {
      let client = accept(listener, nil, nil)
      guard client >= 0 else { return }
      LinkSocket.prepare(client)
      guard let server = LinkSocket.connecting(to: target) else {
        Glibc.close(client)
        continue
      }
      let link = Link(client, server, self, loop)
      links[ObjectIdentifier(link)] = link
    }
  }

  func ticked() {}

  func weather(_ direction: LinkProxy.Direction) -> LinkProxy.Weather { weather[direction] ?? .whole }
  func isLost(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }

  func set(_ weather: LinkProxy.Weather, _ directions: [LinkProxy.Direction]) {
    for direction in directions { self.weather[direction] = weather }
    for link in links.values { link.weatherChanged() }
  }

  func ended(_ link: Link) { links[ObjectIdentifier(link)] = nil }
  func endAll() { for link in links.values { link.end() } }

  func close() {
    if let id { loop.remove(listener, id) }
    id = nil
    endAll()
  }
}

/// One connection, as two sides: what comes in at one goes out at the other, in its order, when it may.
private final class Link {
  private var sides: (client: LinkSide, server: LinkSide)?
  private weak var door: LinkDoor?

  init(_ client: Int32, _ server: Int32, _ door: LinkDoor, _ loop: LinkLoop) {
    self.door = door
    let (one, other) = (LinkSide(client, self, loop), LinkSide(server, self, loop))
    sides = (one, other)
    one.join(other, .there)
    other.join(one, .back)
  }

  func weather(_ direction: LinkProxy.Direction) -> LinkProxy.Weather { door?.weather(direction) ?? .whole }
  func isLost(_ share: Double) -> Bool { door?.isLost(share) ?? false }

  func weatherChanged() {
    sides?.client.pump()
    sides?.server.pump()
  }

  func end() {
    guard let (client, server) = sides else { return }
    sides = nil
    client.close()
    server.close()
    door?.ended(self)
  }

  /// Both sides are closed.
  func sideClosed() {
    guard let (client, server) = sides, client.isClosed, server.isClosed else { return }
    sides = nil
    door?.ended(self)
  }
}

/// One side of a connection, and what has come in there and not gone out yet.
private final class LinkSide: LinkLoop.Source {
  private struct Segment {
    var bytes: ArraySlice<UInt8>
    let due: ContinuousClock.Instant
  }

  private let socket: Int32
  private let loop: LinkLoop
  private weak var link: Link?
  private weak var other: LinkSide?
  private var direction = LinkProxy.Direction.there
  private var id: UInt64?
  /// nil: not at all.
  private var watched: UInt32?
  private var waiting: [Segment] = []
  private var waitingBytes = 0
  /// Nothing more comes in here.
  private var hasEnded = false
  /// The last bytes for this side did not all fit.
  private var isFull = false
  private var isWaiting = false

  private static let waitingBytesMax = 1 << 20
  private static let retransmission: ClosedRange<Int64> = 200...400
  private static let readMax = 64 << 10

  init(_ socket: Int32, _ link: Link, _ loop: LinkLoop) {
    self.socket = socket
    self.link = link
    self.loop = loop
  }

  func join(_ other: LinkSide, _ direction: LinkProxy.Direction) {
    self.other = other
    self.direction = direction
    id = loop.add(socket, self, for: EPOLLIN.rawValue)
    watched = EPOLLIN.rawValue
  }

  var isClosed: Bool { id == nil }

  func close() {
    guard let id else { return }
    self.id = nil
    loop.remove(socket, id)
    link?.sideClosed()
  }

  func ready(_ events: UInt32) {
    if events & EPOLLOUT.rawValue != 0 {
      isFull = false
      other?.pump()
    }
    if events & (EPOLLIN.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0, !hasEnded { receive() }
    watch()
  }

  func ticked() { pump() }

  private func receive() {
    var (received, fault): (Int, Int32) = (0, 0)
    let bytes = [UInt8](unsafeUninitializedCapacity: Self.readMax) { buffer, count in
      received = recv(socket, buffer.baseAddress, Self.readMax, 0)
      fault = errno
      count = max(0, received)
    }
    if received > 0 {
      waiting.append(Segment(bytes: bytes[...], due: due))
      waitingBytes += received
    } else if received < 0, fault == EAGAIN || fault == EINTR {
      return
    } else {
      // The other side is not told an error from an end.
      hasEnded = true
    }
    pump()
  }

  private var due: ContinuousClock.Instant {
    switch link?.weather(direction) {
    case .late(let time)?: return .now + time
    case .lossy(let share)? where link?.isLost(share) == true:
      return .now + .milliseconds(Int64.random(in: Self.retransmission))
    default: return Self.past
    }
  }

  /// Due at once: the clock is not asked.
  private static let past = ContinuousClock.now - .seconds(1)

  /// Hands on what may pass by now.
  func pump() {
    defer { watch() }
    guard link?.weather(direction) != .cut else { return wait(false) }
    var now: ContinuousClock.Instant?
    while let first = waiting.first {
      if first.due > Self.past {
        let time = now ?? .now
        now = time
        guard first.due <= time else { return wait(true) }
      }
      guard let count = other?.take(first.bytes) else { return end() }
      waitingBytes -= count
      guard count == first.bytes.count else {
        waiting[0].bytes = first.bytes.dropFirst(count)
        return wait(false)
      }
      waiting.removeFirst()
    }
    wait(false)
    if hasEnded { end() }
  }

  private func end() {
    let other = other
    close()
    other?.close()
  }

  private func wait(_ isWaiting: Bool) {
    guard isWaiting != self.isWaiting, let id else { return }
    self.isWaiting = isWaiting
    loop.setWaiting(isWaiting, id)
  }

  /// - Returns: how many of `bytes` it has taken; nil when it takes none any more.
  private func take(_ bytes: ArraySlice<UInt8>) -> Int? {
    guard !isClosed else { return nil }
    guard !isFull else { return 0 }
    let count = bytes.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    if count < bytes.count {
      guard count >= 0 || errno == EAGAIN || errno == ENOTCONN else { return nil }
      isFull = true
      watch()
    }
    return max(0, count)
  }

  /// Holds the sender up while too much waits.
  private func watch() {
    guard let id else { return }
    let reads = !hasEnded && waitingBytes < Self.waitingBytesMax
    let events = (reads ? EPOLLIN.rawValue : 0) | (isFull ? EPOLLOUT.rawValue : 0)
    // If a socket's end is known and may not pass yet, epoll would report it again and again.
    let next = hasEnded && events == 0 ? nil : events
    guard next != watched else { return }
    switch (watched, next) {
    case (_, nil): loop.ignore(socket)
    case (nil, let events?): loop.watchAgain(socket, id, for: events)
    case (_, let events?): loop.change(socket, id, to: events)
    }
    watched = next
  }
}

/// Sockets that nobody waits for.
private enum LinkSocket {
  static func prepare(_ socket: Int32) {
    _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK)
    _ = fcntl(socket, F_SETFD, FD_CLOEXEC)
    var yes: Int32 = 1
    setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
  }

  /// - Returns: nil when nobody can be connected to.
  static func connecting(to port: Int) -> Int32? {
    let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard socket >= 0 else { return nil }
    prepare(socket)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(UInt16(port).bigEndian)
    address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard code == 0 || errno == EINPROGRESS else {
      close(socket)
      return nil
    }
    return socket
  }
}
