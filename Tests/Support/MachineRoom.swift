// Tests run all at once; what starts processes takes turns, so that each has a share of the machine that its time-outs
// were made for.

import Foundation
import Synchronization

/// How many tests may have relays and servers of their own running at one time.
package enum MachineRoom {
  /// Set within `with`: what a test starts further is part of its share.
  @TaskLocal private static var isInside = false

  private static let places = Mutex(Places(free: max(3, ProcessInfo.processInfo.activeProcessorCount * 2)))

  /// Runs `body` when there is room. First come, first served.
  package static func with<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    guard !isInside else { return try await body() }
    await withCheckedContinuation { continuation in
      if places.withLock({ $0.take(or: continuation) }) { continuation.resume() }
    }
    defer { places.withLock { $0.leave() }?.resume() }
    return try await $isInside.withValue(true, operation: body)
  }

  private struct Places {
    var free: Int
    var waiting: [CheckedContinuation<Void, Never>] = []

    mutating func take(or waiter: CheckedContinuation<Void, Never>) -> Bool {
      guard free == 0 else {
        free -= 1
        return true
      }
      waiting.append(waiter)
      return false
    }

    /// - Returns: who takes the place over.
    mutating func leave() -> CheckedContinuation<Void, Never>? {
      guard waiting.isEmpty else { return waiting.removeFirst() }
      free += 1
      return nil
    }
  }
}
