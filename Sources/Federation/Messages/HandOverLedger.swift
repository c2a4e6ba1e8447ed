import Crypto
import Metrics
package import RelayCore
import RelayHTTP
import RelayMetrics
import RelayWork
import Synchronization

/// Remembers which messages were handed over to which peer, and says whether a receipt is for one of them
/// (docs/federation.md, "Receipts").
///
/// A row for each message is in the store when the request that hands it over is answered (`HandOverNote`): whichever
/// process is told of the receipt knows the message. The process also remembers what it handed over lately, so that its
/// receipts ask the store nothing.
package final class HandOverLedger: Sendable {
  /// The records of one request: what it hands over, and which parts were answered.
  private struct Note: Sendable {
    let records: [LedgerRecord]
    let came = ContinuousClock.now
    /// Told whether the store has it.
    let finish: @Sendable (Bool) -> Void
  }

  /// Whether the store has left the last notes without an answer.
  private final class Silence: Sendable { let isOn = Atomic(false) }

  private let store: any HandOverStore
  private let clock: WallClock
  private let notes: Batcher<Note>
  /// The relay's key, with nothing under it yet.
  let code: HMAC<SHA256>
  /// The notes of requests that are under way.
  let unanswered = SharedCountdown(of: answerPatience)
  private let recent: Mutex<RecentTags>
  private let unnoted = RelayMetric.crossings.unnoted.counter()
  private let forged = PeerCounters(RelayMetric.crossings.receiptsRefused)
  /// Entries that the loss ledger still has to count.
  let recording: Batcher<LedgerRecord>
  /// Refusals of ours: peers cause as many as they like, and take no place from the others.
  let refusing: Batcher<LedgerRecord>
  static let unrecorded = RelayMetric.crossings.unrecorded.counter()

  /// - Parameter key: 32 bytes, the same for all processes of the operator.
  package init(
    store: any HandOverStore, key: SecretBytes, clock: WallClock, recentMax: Int = 65_536
  ) {
    self.store = store
    self.clock = clock
    let (patience, silence) = (SharedCountdown(of: Self.patience), Silence())
    notes = Batcher(batchMax: Self.notesPerCall, waitingMax: Self.notesWaitingMax) { notes in
      // Behind a store that does not answer they have waited long enough. The first to come stand first.
      let isSilent = silence.isOn.load(ordering: .relaxed)
      let late = notes.prefix { isSilent && $0.came + Self.patience < .now }
      for note in late { note.finish(false) }
      let notes = notes.dropFirst(late.count)
      guard !notes.isEmpty else { return }
      let records = Self.merged(notes.flatMap(\.records))
      let outcome = Waiter<Bool>()
      let ticket = patience.begin { outcome.end(with: false) }
      Task {
        outcome.end(with: await Self.insist(records, on: store))
        patience.end(ticket)
      }
      let isNoted = await outcome.value() ?? false
      silence.isOn.store(!isNoted, ordering: .relaxed)
      for note in notes { note.finish(isNoted) }
    }
    code = HMAC(key: SymmetricKey(data: key.bytes))
    recent = Mutex(RecentTags(capacity: recentMax))
    // More gathers meanwhile, and a store that is away is left alone.
    func batcher(_ waitingMax: Int) -> Batcher<LedgerRecord> {
      Batcher(
        retryingBatchesOf: Self.recordsMax, waitingMax: waitingMax,
        rest: .init(gathering: Self.recordingPause, beforeRetry: Self.retryPause)
      ) { records in await Self.write(records, to: store) }
    }
    recording = batcher(Self.waitingMax)
    refusing = batcher(Self.refusalsMax)
  }

  /// Under the key that all processes of the store share.
  package static func open(
    _ store: any HandOverStore & ServerSecretStore, clock: WallClock
  ) async throws(StoreError) -> HandOverLedger {
    let key = try await store.serverKey(.handOvers) {
      SecretBytes((0..<ServerKeyName.handOvers.byteCount).map { _ in UInt8.random(in: .min ... .max) })
    }
    return HandOverLedger(store: store, key: key, clock: clock)
  }

  /// To be called before `crossings` are sent: the peer may answer with receipts sooner than `note` returns.
  func remember(_ crossings: [[Crossing]]) {
    recent.withLock { $0.insert(crossings.lazy.compactMap { $0.first?.tag }, at: .now) }
  }

  /// Writes down that `crossings` are handed over, and that `taken` are, which the peer has accepted. A store that is
  /// away, or slow, keeps no message from its way: then their receipts are taken by this process alone, for as long as
  /// it remembers them, which is counted; and that they were answered is written when the store is back.
  /// - Parameters:
  ///   - crossings: of each hand-over its own; of a message all with the same tag.
  ///   - taken: likewise.
  func note(_ crossings: [[Crossing]], answered taken: [[Crossing]] = [], by peer: RelayName) async {
    let answered = LedgerRecord(.answered, taken.flatMap(\.self), relay: peer)
    let handedOver = LedgerRecord(.handedOver, crossings.flatMap(\.self), relay: peer)
    guard await !write([handedOver, answered]) else { return }
    unnoted.increment(by: (crossings + taken).count { $0.first?.tag != nil })
    self.answered(answered.crossings, by: peer)
  }

  /// Behind what was written before.
  /// - Returns: whether the store has it all.
  func write(_ records: [LedgerRecord]) async -> Bool {
    let records = records.filter { !$0.crossings.isEmpty }
    guard !records.isEmpty else { return true }
    return await withCheckedContinuation { continuation in
      let isTaken = notes.add(Note(records: records) { continuation.resume(returning: $0) })
      if !isTaken { continuation.resume(returning: false) }
    }
  }

  /// Until the store takes them, or the caller's patience ends.
  private static func insist(_ records: [LedgerRecord], on store: any HandOverStore) async -> Bool {
    let deadline = ContinuousClock.now + patience
    while .now < deadline {
      do throws(StoreError) {
        for record in records { try await store.record(record) }
        return true
      } catch {
        guard case .unavailable = error else { return false }
        await Pause.for(pause)
      }
    }
    return false
  }

  /// - Throws: `.notFound`, which is counted, unless the message that `sender` wrote to `recipient` at `timestamp` was
  ///   handed over to `peer` within 30 days: as for an account that there is not, so that nobody learns by receipts
  ///   who is registered. `.unavailable`.
  func demand(
    _ timestamp: Timestamp, from sender: AccountNumber, to recipient: AccountNumber, at peer: RelayName
  ) async throws(Problem) {
    let tag = tag(of: timestamp, from: sender, to: recipient, at: peer)
    if recent.withLock({ $0.contains(tag, at: .now) }) { return }
    let isKnown = try await storing { () async throws(StoreError) in
      let hour = LedgerHour(of: timestamp)
      if try await store.wasHandedOver(tag, in: hour) { return true }
      // The peer may be quicker than the process that hands the message over right now is with its note.
      let now = clock.now()
      guard timestamp > now.adding(.zero - Self.justNow), timestamp < now.adding(Self.justNow) else { return false }
      // If the task is cancelled, no caller waits for the answer.
      await Pause.for(Self.secondLook)
      return try await store.wasHandedOver(tag, in: hour)
    }
    guard isKnown else {
      forged.add(of: peer)
      throw Problem(.notFound)
    }
  }

  func tag(
    of timestamp: Timestamp, from sender: AccountNumber, to recipient: AccountNumber, at peer: RelayName
  ) -> HandOverTag {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(64)
    for part in [sender.digits, recipient.digits, UInt64(bitPattern: timestamp.millis)] {
      withUnsafeBytes(of: part.bigEndian) { bytes += $0 }
    }
    bytes += peer.text.utf8
    var code = code
    code.update(data: bytes)
    return code.finalize().withUnsafeBytes { HandOverTag(bits: Int64(bigEndian: $0.loadUnaligned(as: Int64.self))) }
  }

  /// A peer that is well answers within it.
  private static let answerPatience = Duration.milliseconds(50)
  /// A peer takes longer as a rule.
  private static let patience = Duration.seconds(1)
  private static let pause = Duration.milliseconds(50)
  private static let notesPerCall = 200
  private static let notesWaitingMax = 10_000
  /// How old a message may be whose receipt is looked for twice, by its sender's clock.
  private static let justNow = Duration.seconds(60)
  private static let secondLook = Duration.milliseconds(200)
}

/// Tags of the last hour or two, bounded in number.
struct RecentTags {
  private var tags: AgedGenerations<HandOverTag, Void, ContinuousClock.Instant>

  init(capacity: Int) { tags = AgedGenerations(capacity: capacity, life: .seconds(3600)) }

  mutating func insert(_ tags: some Sequence<HandOverTag>, at now: ContinuousClock.Instant) {
    for tag in tags { self.tags.insert((), for: tag, at: now) }
  }

  mutating func contains(_ tag: HandOverTag, at now: ContinuousClock.Instant) -> Bool {
    tags.value(of: tag, at: now) != nil
  }
}
