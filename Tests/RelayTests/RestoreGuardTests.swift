import Logging
import Relay
import RelayCore
import Synchronization
import TestSupport
import Testing

/// What `RestoreGuard` makes of witnesses' answers (docs/decisions/2026-11-21-restored-stores.md).
@Suite struct RestoreGuardTests {
  private let store = MemoryEpochs(at: 100)
  private let witness = FixedWitness()

  private var restores: RestoreGuard {
    RestoreGuard(
      store: store, witnesses: [witness], clock: WallClock { Timestamp(millis: 1000) }, logger: Logger(label: "test"))
  }

  @Test(arguments: [[.max, 500], [500, .max, nil], [nil, 500, 3], [500]] as [[Int64?]])
  func `an absurd or a missing answer does not hide one that knows better`(answers: [Int64?]) async {
    witness.answers = answers
    await restores.check()
    #expect(store.floors == [501])
  }

  @Test(arguments: [[.max, 0], [.max], [.max, nil], [0, nil]] as [[Int64?]])
  func `an absurd answer is none: while it is the only one nothing is decided`(answers: [Int64?]) async {
    witness.answers = answers
    let restores = restores
    for _ in 0..<5 { await restores.check() }
    #expect(!restores.allowsOneTimeKeys && store.floors.isEmpty)
    #expect(store.epoch <= 101, "waiting does not bring an older state up to what they remember")
    witness.answers = answers + [103]
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors == [104])
  }

  @Test(arguments: [[], [0, 0], [100, .max], [7, nil]] as [[Int64?]])
  func `a store that is as far as they remember keeps its keys`(answers: [Int64?]) async {
    witness.answers = answers
    let restores = restores
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty)
  }

  @Test func `a store that is put back between two calls of one look loses its keys`() async throws {
    witness.answers = [100]
    let restores = restores
    await restores.check()
    // The next look raises the epoch twice: by 1, and to the present.
    store.putBack(to: 40, beforeAdvance: 2)
    let running = Task { try await restores.run() }
    try await eventually("the look is over") { witness.asked >= 2 }
    running.cancel()
    try await running.value
    #expect(store.floors == [103])
    #expect(store.epoch >= 1000)
  }
}

/// A store's epoch that can be put back.
private final class MemoryEpochs: EpochStore {
  private struct State {
    var epoch: Int64
    var floors: [Int64] = []
    var putBack: (epoch: Int64, calls: Int)?
  }
  private let state: Mutex<State>

  init(at epoch: Int64) { state = Mutex(State(epoch: epoch)) }

  var epoch: Int64 { state.withLock { $0.epoch } }
  /// With which the one-time keys were set aside.
  var floors: [Int64] { state.withLock { $0.floors } }

  func putBack(to epoch: Int64, beforeAdvance call: Int) { state.withLock { $0.putBack = (epoch, call) } }

  func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) {
    state.withLock { state in
      if let (epoch, calls) = state.putBack {
        state.putBack = calls > 1 ? (epoch, calls - 1) : nil
        if calls == 1 { state.epoch = epoch }
      }
      let before = state.epoch
      state.epoch = max(before + 1, floor)
      return (before, state.epoch)
    }
  }

  func setAsideOneTimePreKeys(epoch floor: Int64) async throws(StoreError) {
    state.withLock { state in
      state.floors.append(floor)
      state.epoch = max(state.epoch, floor)
    }
  }

  func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? { nil }
}

private final class FixedWitness: EpochWitness {
  private let state = Mutex<(answers: [Int64?], asked: Int)>(([], 0))

  var answers: [Int64?] {
    get { state.withLock { $0.answers } }
    set { state.withLock { $0.answers = newValue } }
  }
  /// How often it was.
  var asked: Int { state.withLock { $0.asked } }

  func witness(epoch: Int64) async -> [Int64?] {
    state.withLock { state in
      state.asked += 1
      return state.answers
    }
  }
}
