import Logging
import Relay
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

/// `RestoreGuard`'s use of witnesses' answers (docs/decisions/2026-11-21-restored-stores.md).
@Suite(.tags(.unit)) struct RestoreGuardTests {
  private let store = MemoryEpochs(at: 100)
  private let redis = FixedWitness()
  private let peers = FixedWitness(["alpha", "beta", "gamma"])

  private func restores(redis: FixedWitness?, peers: FixedWitness?) -> RestoreGuard {
    RestoreGuard(
      store: store, redis: redis, peers: peers, clock: WallClock { Timestamp(millis: 1000) },
      logger: Logger(label: "test"))
  }

  @Test func `if Redis remembers, peers are not asked`() async {
    (redis.answers, peers.answers) = ([100], [900, 900, 900])
    let restores = restores(redis: redis, peers: peers)
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty)
    #expect(peers.asked == 0)
  }

  @Test func `Redis's word is enough`() async {
    redis.answers = [500]
    await restores(redis: redis, peers: peers).check()
    #expect(store.floors == [501] && store.words == [.redis])
  }

  @Test(arguments: [[900, 500], [500, .max, 700], [nil, 500, 600], [3, 500, 900]] as [[Int64?]])
  func `two peers that agree are believed, as far as both go`(answers: [Int64?]) async throws {
    redis.answers = [0]
    peers.answers = answers
    await restores(redis: redis, peers: peers).check()
    let agreed = try #require(answers.compactMap(\.self).filter { $0 < .max }.sorted().dropLast().last)
    #expect(store.floors == [agreed + 1])
    guard case .peers(let names) = try #require(store.words.first) else { throw TestFailure("\(store.words)") }
    #expect(names.count == 2)
  }

  @Test(arguments: [[900], [900, 0], [900, 50, nil], [100, 900, 7]] as [[Int64?]])
  func `one peer alone is not believed, and the claim is noted`(answers: [Int64?]) async throws {
    redis.answers = [0]
    peers.answers = answers
    let restores = restores(redis: redis, peers: peers)
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty)
    #expect(store.claims.count == 1 && store.claims.compactMap(\.self).count == 1)
  }

  @Test(arguments: [[.max, 0], [.max], [.max, nil], [0, nil], [900, nil], [nil]] as [[Int64?]])
  func `while those who might know are silent nothing is decided`(answers: [Int64?]) async {
    peers.answers = answers
    let restores = restores(redis: nil, peers: peers)
    for _ in 0..<5 { await restores.check() }
    #expect(!restores.allowsOneTimeKeys && store.floors.isEmpty && store.isHeldBack)
    #expect(store.claims.isEmpty == !answers.contains(900))
    #expect(store.epoch <= 101, "waiting does not bring an older state up to what they remember")
    peers.answers = [103, 103]
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors == [104] && !store.isHeldBack)
  }

  @Test(arguments: [[900, nil], [0, nil]] as [[Int64?]])
  func `the operator's word ends the waiting, and what one peer claims holds nobody back again`(answers: [Int64?]) async
  {
    peers.answers = answers
    // A word about an earlier state of the store.
    store.sayRestored(at: -3_600_000)
    let restores = restores(redis: nil, peers: peers)
    for _ in 0..<2 { await restores.check() }
    #expect(!restores.allowsOneTimeKeys && store.isHeldBack)
    store.sayRestored(at: 1500)
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty && !store.isHeldBack)
    #expect(store.epoch >= answers.compactMap(\.self).max() ?? 0)
    let next = self.restores(redis: nil, peers: peers)
    await next.check()
    #expect(next.allowsOneTimeKeys)
  }

  @Test func `the operator's word shortly before the start counts`() async {
    peers.answers = [0, nil]
    store.sayRestored(at: 500)
    let restores = restores(redis: nil, peers: peers)
    await restores.check()
    #expect(restores.allowsOneTimeKeys)
  }

  @Test func `a silent Redis is waited for, unless peers that remember have nothing against the store`() async {
    (redis.answers, peers.answers) = ([nil], [900])
    let restores = restores(redis: redis, peers: peers)
    await restores.check()
    #expect(!restores.allowsOneTimeKeys)
    peers.answers = [90]
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty)
  }

  @Test(arguments: [[], [0, 0], [100, .max], [7, nil]] as [[Int64?]])
  func `a store that is as far as they remember keeps its keys`(answers: [Int64?]) async {
    peers.answers = answers
    let restores = restores(redis: nil, peers: peers)
    await restores.check()
    #expect(restores.allowsOneTimeKeys && store.floors.isEmpty)
    #expect(store.claims == [nil], "what was claimed before is forgotten")
  }

  @Test func `a store that is put back between two calls of one look loses its keys`() async throws {
    redis.answers = [100]
    let restores = restores(redis: redis, peers: nil)
    await restores.check()
    // The next look raises the epoch twice: by 1, and to the present.
    store.putBack(to: 40, beforeAdvance: 2)
    let running = Task { try await restores.run() }
    try await eventually("the look is over") { redis.asked >= 3 }
    running.cancel()
    try await running.value
    #expect(store.floors == [102] && store.words == [.process])
    #expect(store.epoch >= 1000)
  }
}

extension RestoreGuardTests {
  @Test func `keys are handed out behind an epoch that is witnessed, one for all of a second`() async {
    redis.answers = [100]
    let restores = restores(redis: redis, peers: nil)
    await restores.check()
    let before = store.epoch
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<50 {
        group.addTask {
          #expect(await restores.permit() != nil)
          restores.drew()
        }
      }
    }
    #expect(store.epoch > before && redis.told.last == store.epoch)
    // One look asks twice: what Redis remembers, and to remember. Another one may have been due.
    #expect(redis.asked <= 5)
  }

  @Test func `handed-out keys have an epoch behind them soon, even if nobody asks any more`() async throws {
    redis.answers = [100]
    let restores = restores(redis: redis, peers: nil)
    await restores.check()
    #expect(await restores.permit() != nil)
    let during = store.epoch
    restores.drew()
    let running = Task { try await restores.run() }
    try await eventually("an epoch behind it is witnessed") { (redis.told.last ?? 0) > during }
    running.cancel()
    try await running.value
  }

  @Test func `a store that went back behind what another process had witnessed hands out no key`() async {
    redis.answers = [100]
    let restores = restores(redis: redis, peers: nil)
    await restores.check()
    redis.answers = [900]
    #expect(await restores.permit() != nil, "keys that are uploaded from now on")
    #expect(store.floors == [901] && store.words == [.redis])
  }

  @Test func `without Redis quick peers are told in each second`() async {
    peers.answers = [100, 100, 100]
    let restores = RestoreGuard(
      store: store, redis: nil, peers: nil, quickPeers: peers, clock: WallClock { Timestamp(millis: 1000) },
      logger: Logger(label: "test"))
    await restores.check()
    #expect(await restores.permit() != nil)
    #expect(peers.told.last == store.epoch)
  }

  @Test func `a witness that is silent holds nothing back once the store was compared`() async {
    redis.answers = [100]
    let restores = restores(redis: redis, peers: nil)
    await restores.check()
    redis.answers = [nil]
    #expect(await restores.permit() != nil && store.floors.isEmpty)
  }
}

/// A store's epoch that can be put back.
private final class MemoryEpochs: EpochStore {
  private struct State {
    var epoch: Int64
    var floors: [Int64] = []
    var words: [RestoreWord] = []
    var claims: [RelayName?] = []
    var setAside: RestoreNotes.Note?
    var isHeldBack = false
    var putBack: (epoch: Int64, calls: Int)?
  }
  private let state: Mutex<State>

  init(at epoch: Int64) { state = Mutex(State(epoch: epoch)) }

  var epoch: Int64 { state.withLock { $0.epoch } }
  /// With which the one-time keys were set aside.
  var floors: [Int64] { state.withLock { $0.floors } }

  /// By whose.
  var words: [RestoreWord] { state.withLock { $0.words } }
  /// The notes about them, nil for one that was forgotten.
  var claims: [RelayName?] { state.withLock { $0.claims } }

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

  func epoch() async throws(StoreError) -> Int64 { epoch }

  func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError) {
    state.withLock { $0.claims.append(peer) }
  }

  func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError) { state.withLock { $0.isHeldBack = isHeldBack } }

  func restoreNotes() async throws(StoreError) -> RestoreNotes {
    state.withLock { state in
      RestoreNotes(
        setAside: state.setAside, claim: state.claims.last?.map(Self.note),
        heldBack: state.isHeldBack ? Self.note("") : nil)
    }
  }

  /// As `relay storage restored`, at `noted`.
  func sayRestored(at noted: Int64) {
    state.withLock { state in
      state.setAside = RestoreNotes.Note(
        word: RestoreWord.command.text, behind: .zero, noted: Timestamp(millis: noted))
    }
  }

  var isHeldBack: Bool { state.withLock { $0.isHeldBack } }

  private static func note(_ word: some CustomStringConvertible) -> RestoreNotes.Note {
    RestoreNotes.Note(word: word.description, behind: .zero, noted: Timestamp(millis: 1))
  }

  func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration) async throws(StoreError) {
    state.withLock { state in
      state.floors.append(floor)
      state.words.append(word)
      state.epoch = max(state.epoch, floor)
    }
  }

  func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? { nil }
}

private final class FixedWitness: EpochWitness {
  private let names: [RelayName?]
  private let state = Mutex<(answers: [Int64?], asked: Int, told: [Int64])>(([], 0, []))

  /// - Parameter names: of peers; without them it is Redis.
  init(_ names: [String] = []) { self.names = names.isEmpty ? [nil] : names.map { RelayName($0) } }

  var answers: [Int64?] {
    get { state.withLock { $0.answers } }
    set { state.withLock { $0.answers = newValue } }
  }
  /// The epochs that it was told to remember.
  var told: [Int64] { state.withLock { $0.told } }
  /// How often it was.
  var asked: Int { state.withLock { $0.asked } }

  func witness(epoch: Int64) async -> [EpochTestimony] {
    state.withLock { state in
      state.asked += 1
      if epoch > 0 { state.told.append(epoch) }
      return zip(names, state.answers).map { EpochTestimony(peer: $0, epoch: $1) }
    }
  }
}
