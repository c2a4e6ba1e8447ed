import CoreMetrics
import DequeModule
import NIOCore
import RelayMetrics
import Synchronization

/// The memory for bodies that have come in part, of all requests and WebSockets of a process.
///
/// Each body has a bound of its own. But thousands of callers may each begin one, and never end it. So all of them
/// together have a bound as well. When a part comes that would pass it, the bodies that began first give way: a caller
/// that drips keeps nobody out who sends a whole body soon. A body that comes in one part takes no room.
package final class BodyRoom: Sendable {
  /// Some thirty of the largest bodies, which come in less than a second each.
  package static let process = BodyRoom(bytesMax: 256 << 20)

  fileprivate struct State {
    /// The memory of bodies that have not ended.
    var bytes = 0
    var count = 0
    /// The oldest first. Bodies that have ended stay until they are at the front, or the most of all.
    var places = Deque<BodyPlace>()
  }

  private let state = Mutex(State())
  private let bytesMax: Int
  private let givenUp = RelayMetric.requests.bodiesGivenUp.counter()

  package init(bytesMax: Int) { self.bytesMax = bytesMax }

  /// Bytes that are held just now.
  package var bytes: Int { state.withLock(\.bytes) }

  /// A place for a body of which nothing has come yet. `end` follows.
  /// - Parameter giveWay: lets go of what has come. Called once at most, on any thread.
  func begin(_ giveWay: @escaping @Sendable () -> Void) -> BodyPlace {
    let place = BodyPlace(in: self, giveWay)
    state.withLock { state in
      state.count += 1
      if state.places.count >= 2 * state.count + 64 { state.places.removeAll { $0.hasEnded } }
      state.places.append(place)
    }
    return place
  }

  fileprivate func take(_ bytes: Int, for place: BodyPlace) -> Bool {
    let leaving = state.withLock { state in
      guard place.raise(by: bytes) else { return [BodyPlace]() }
      state.bytes += bytes
      var leaving: [BodyPlace] = []
      while state.bytes > bytesMax, let oldest = state.places.popFirst() {
        guard state.end(oldest) else { continue }
        leaving.append(oldest)
      }
      return leaving
    }
    // Their memory is let go of outside of the lock.
    for place in leaving { place.leave() }
    if !leaving.isEmpty { givenUp.increment(by: leaving.count) }
    return !place.hasEnded
  }

  fileprivate func end(_ place: BodyPlace) { state.withLock { _ = $0.end(place) } }
}

extension BodyRoom.State {
  /// - Returns: false when it had ended before.
  fileprivate mutating func end(_ place: BodyPlace) -> Bool {
    guard let held = place.release() else { return false }
    bytes -= held
    count -= 1
    return true
  }
}

/// The place of one body in a `BodyRoom`.
final class BodyPlace: Sendable {
  private let room: BodyRoom
  /// nil once it has ended: the room may remember a place for longer than its owner lives.
  private let giveWay: Mutex<(@Sendable () -> Void)?>
  /// The bytes that are counted for it; less than 0 when it has ended. Changes under the room's lock alone.
  private let held = Atomic(0)

  fileprivate init(in room: BodyRoom, _ giveWay: @escaping @Sendable () -> Void) {
    self.room = room
    self.giveWay = Mutex(giveWay)
  }

  /// Whether the body has given way, or has given its room back.
  var hasEnded: Bool { held.load(ordering: .relaxed) < 0 }

  /// - Returns: whether the body may keep `bytes` more; no more once it has given way.
  func grow(by bytes: Int) -> Bool { room.take(bytes, for: self) }

  /// Gives the room back.
  func end() {
    room.end(self)
    giveWay.withLock { $0 = nil }
  }

  /// The room has taken its bytes away.
  fileprivate func leave() {
    let giveWay = giveWay.withLock { $0.take() }
    giveWay?()
  }

  /// - Returns: false when it has ended.
  fileprivate func raise(by bytes: Int) -> Bool {
    guard !hasEnded else { return false }
    held.add(bytes, ordering: .relaxed)
    return true
  }

  /// - Returns: what it held; nil when it had ended before.
  fileprivate func release() -> Int? {
    let bytes = held.exchange(-1, ordering: .relaxed)
    return bytes < 0 ? nil : bytes
  }
}

/// The body of a request that has come in part. `end` follows.
final class PartialBody: Sendable {
  private final class Part: Sendable {
    let buffer = Mutex<ByteBuffer?>(ByteBuffer())
    func drop() { buffer.withLock { $0 = nil } }
  }

  private let part: Part
  private let place: BodyPlace

  init(in room: BodyRoom) {
    let part = Part()
    self.part = part
    place = room.begin { part.drop() }
  }

  /// Nothing is reserved for what was only announced.
  /// - Returns: false when the body has given way to others. Then it holds nothing.
  func append(_ bytes: ByteBuffer) -> Bool {
    let growth = part.buffer.withLock { buffer -> Int? in
      guard let former = buffer?.storageCapacity else { return nil }
      buffer?.writeImmutableBuffer(bytes)
      return (buffer?.storageCapacity ?? 0) - former
    }
    guard let growth else { return false }
    return growth == 0 || place.grow(by: growth)
  }

  /// Takes what has come.
  /// - Returns: nil when the body has given way to others.
  func take() -> ByteBuffer? {
    part.buffer.withLock { buffer in
      defer { buffer = nil }
      return buffer
    }
  }

  /// Gives its room back.
  func end() {
    part.drop()
    place.end()
  }
}
