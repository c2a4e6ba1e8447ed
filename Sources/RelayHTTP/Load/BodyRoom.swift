import CoreMetrics
import DequeModule
import NIOCore
import RelayMetrics
import Synchronization

/// The memory for bodies that have come in part, of all requests of a process.
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
    var bodies = Deque<PartialBody>()
  }

  private let state = Mutex(State())
  private let bytesMax: Int
  private let givenUp = RelayMetric.requests.bodiesGivenUp.counter()

  package init(bytesMax: Int) { self.bytesMax = bytesMax }

  /// Bytes that are held just now.
  package var bytes: Int { state.withLock(\.bytes) }

  /// A body of which nothing has come yet. `end` follows.
  func begin() -> PartialBody {
    let body = PartialBody(in: self)
    state.withLock { state in
      state.count += 1
      if state.bodies.count >= 2 * state.count + 64 { state.bodies.removeAll { $0.hasEnded } }
      state.bodies.append(body)
    }
    return body
  }

  /// - Returns: whether `body` may keep `bytes` more; no more once it has given way.
  fileprivate func take(_ bytes: Int, for body: PartialBody) -> Bool {
    let leaving = state.withLock { state in
      guard body.grow(by: bytes) else { return [PartialBody]() }
      state.bytes += bytes
      var leaving: [PartialBody] = []
      while state.bytes > bytesMax, let oldest = state.bodies.popFirst() {
        guard state.end(oldest) else { continue }
        leaving.append(oldest)
      }
      return leaving
    }
    // Their memory is let go of outside of the lock.
    for body in leaving { body.drop() }
    if !leaving.isEmpty { givenUp.increment(by: leaving.count) }
    return !body.hasEnded
  }

  fileprivate func end(_ body: PartialBody) { state.withLock { _ = $0.end(body) } }
}

extension BodyRoom.State {
  /// - Returns: false when it had ended before.
  fileprivate mutating func end(_ body: PartialBody) -> Bool {
    guard let held = body.release() else { return false }
    bytes -= held
    count -= 1
    return true
  }
}

/// One body that has come in part.
final class PartialBody: Sendable {
  private let room: BodyRoom
  private let buffer = Mutex<ByteBuffer?>(ByteBuffer())
  /// The bytes that are counted for it; less than 0 when it has ended. Changes under the room's lock alone.
  private let held = Atomic(0)

  fileprivate init(in room: BodyRoom) { self.room = room }

  fileprivate var hasEnded: Bool { held.load(ordering: .relaxed) < 0 }

  /// Nothing is reserved for what was only announced.
  /// - Returns: false when the body has given way to others. Then it holds nothing.
  func append(_ part: ByteBuffer) -> Bool {
    let growth = buffer.withLock { buffer -> Int? in
      guard let former = buffer?.storageCapacity else { return nil }
      buffer?.writeImmutableBuffer(part)
      return (buffer?.storageCapacity ?? 0) - former
    }
    guard let growth else { return false }
    return growth == 0 || room.take(growth, for: self)
  }

  /// Takes what has come.
  /// - Returns: nil when the body has given way to others.
  func take() -> ByteBuffer? {
    buffer.withLock { buffer in
      defer { buffer = nil }
      return buffer
    }
  }

  /// Gives its room back.
  func end() {
    drop()
    room.end(self)
  }

  fileprivate func drop() { buffer.withLock { $0 = nil } }

  /// - Returns: false when it has ended.
  fileprivate func grow(by bytes: Int) -> Bool {
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
