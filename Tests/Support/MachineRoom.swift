// Tests run all at once; what starts processes or serves takes turns, so that each has a share of the machine that its
// time-outs were made for.

import Foundation
import Synchronization

/// How many tests may run at one time that have relays and servers of their own, or relays within the test's process.
package enum MachineRoom {
  /// Set inside: what a test starts further is part of its share.
  @TaskLocal private static var isInside = false

  private static let cores = ProcessInfo.processInfo.activeProcessorCount
  private static let racks = Room(places: max(3, cores * 2))
  private static let desks = Room(places: max(4, cores * 3))

  /// Runs `body`, which starts processes, when there is room. First come, first served.
  package static func with<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await run(in: racks, body)
  }

  /// Runs `body`, which has listeners, timers and stores in the test's own process, when there is room.
  package static func withDesk<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await run(in: desks, body)
  }

  private static func run<Result>(
    in room: Room, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    guard !isInside else { return try await body() }
    await room.enter()
    defer { room.leave() }
    return try await $isInside.withValue(true, operation: body)
  }

  private final class Room: Sendable {
    private struct State {
      var free: Int
      var waiting: [CheckedContinuation<Void, Never>] = []
    }
    private let state: Mutex<State>

    init(places: Int) { state = Mutex(State(free: places)) }

    func enter() async {
      await withCheckedContinuation { continuation in
        let isFree = state.withLock { state in
          guard state.free == 0 else {
            state.free -= 1
            return true
          }
          state.waiting.append(continuation)
          return false
        }
        if isFree { continuation.resume() }
      }
    }

    /// The task that has waited for longest takes the place over.
    func leave() {
      let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
        guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
        state.free += 1
        return nil
      }
      next?.resume()
    }
  }
}
