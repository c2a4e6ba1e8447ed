import RelayCore
import Synchronization

/// Remembers what is recorded, call by call.
final class MemoryHandOvers: HandOverStore {
  private let state = Mutex<(calls: [LedgerRecord], isAway: Bool, missed: Int)>(([], false, 0))

  /// The tags of each call.
  var calls: [[HandOverTag]] { state.withLock { $0.calls.map { $0.crossings.compactMap(\.tag) } } }
  var records: [LedgerRecord] { state.withLock { $0.calls } }
  /// Look-ups that found nothing.
  var missed: Int { state.withLock { $0.missed } }
  var isAway: Bool {
    get { state.withLock { $0.isAway } }
    set { state.withLock { $0.isAway = newValue } }
  }

  /// While it holds, nothing is answered.
  private let holding = Mutex<(isOn: Bool, attempts: Int)>((false, 0))
  func hold(_ holds: Bool) { holding.withLock { $0.isOn = holds } }
  /// Calls that it held.
  var held: Int { holding.withLock { $0.attempts } }

  func record(_ record: LedgerRecord) async throws(StoreError) {
    guard !isAway else { throw .unavailable(reason: "away") }
    holding.withLock { if $0.isOn { $0.attempts += 1 } }
    while holding.withLock({ $0.isOn }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    state.withLock { $0.calls.append(record) }
  }
  func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry] { [] }

  /// Runs once, as soon as a look-up has found nothing.
  private let whenMissed = Mutex<(@Sendable () async -> Void)?>(nil)
  func whenMissed(_ body: @escaping @Sendable () async -> Void) { whenMissed.withLock { $0 = body } }

  func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    guard !isAway else { throw .unavailable(reason: "away") }
    let isKnown = state.withLock { state in
      let isKnown = state.calls.contains { $0.crossings.contains { $0.tag == tag && $0.hour == hour } }
      if !isKnown { state.missed += 1 }
      return isKnown
    }
    if !isKnown, let body = whenMissed.withLock({ $0.take() }) { await body() }
    return isKnown
  }
}
