import Synchronization

/// How much of bodies is open at a time: a notification takes several times its body in memory until it is answered,
/// also one that only waits for another.
final class OpenBytes: Sendable {
  private let max: Int
  private let taken = Mutex(0)

  init(max: Int) { self.max = max }

  /// - Returns: false if there is no room. Bytes that were taken must be given back.
  func take(_ count: Int) -> Bool {
    taken.withLock { taken in
      guard count <= max - taken else { return false }
      taken += count
      return true
    }
  }

  func giveBack(_ count: Int) {
    taken.withLock { $0 -= count }
  }
}
