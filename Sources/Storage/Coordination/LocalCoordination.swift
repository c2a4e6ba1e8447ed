package import RelayCore
import Synchronization

/// Limits, budgets, signals and presence of an operator that runs one process: nothing leaves it, and nothing outlives
/// it.
package final class LocalCoordination: Coordination {
  private let table: Mutex<BucketTable>
  private let sketches = Mutex(ContactSketchTable())
  let clock: WallClock
  private let listeners = Listeners<SignalEvent>(name: "relay.signals", initial: .connected)
  let presence = Listeners<PresenceEvent>(name: "relay.presence", initial: .connected)
  let addresses = Mutex(WaitingAddresses())

  /// - Parameter buckets: shapes that differ from `LimiterName.defaultBucket`.
  package init(
    buckets: [LimiterName: Bucket] = [:], clock: WallClock, bucketsMax: Int = LocalCoordination.bucketsMaxDefault
  ) {
    table = Mutex(BucketTable(buckets: buckets, bucketsMax: bucketsMax))
    self.clock = clock
  }

  package func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision {
    let now = clock.now()
    return table.withLock { $0.take(amount, from: limiter, key: key, at: now) }
  }

  package func take(_ charges: [LimitCharge]) async -> LimitDecision {
    let now = clock.now()
    return table.withLock { $0.take(charges, at: now) }
  }

  package func space(in limiter: LimiterName, key: LimitKey) async -> Double {
    let now = clock.now()
    return table.withLock { $0.space(in: limiter, key: key, at: now) }
  }

  package func shape(of limiter: LimiterName) -> Bucket { table.withLock { $0.shape(of: limiter) } }
  package func setLimits(_ buckets: [LimiterName: Bucket]) { table.withLock { $0.setShapes(buckets) } }

  package func spend(
    _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance
  ) async -> ContactSpending {
    let now = clock.now()
    return sketches.withLock { $0.spend(tokens, of: account, within: allowance, at: now) }
  }

  /// On return every listener has been told.
  package func publish(_ signal: Signal) async { await listeners.tell(.signal(signal)) }
  package func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) { listeners.add(handler) }

  package func degradation() async -> String? { nil }
  package var epochWitness: (any EpochWitness)? { nil }
  package var pushBoard: (any PushBoard)? { nil }
  package func close() async {}

  /// Some 30 MB when all are in use.
  package static let bucketsMaxDefault = 200_000
}

// One process knows its own connections by itself: there is nobody else to tell, and nobody who tells.

extension LocalCoordination {
  package func enter(_ connection: LiveConnection) async -> Bool { true }
  package func leave(_ connection: LiveConnection) async {}
  package func forget(_ devices: [DeviceAddress]) async -> Bool { true }
  package func renew(_ connections: [LiveConnection]) async -> PresenceRenewal { PresenceRenewal() }
  package func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome { WakeUpOutcome(absent: devices) }
  package func rollCall(silence: Duration) async -> Int { 0 }

  package func enter(_ address: ProvisioningAddress) async {
    let now = clock.now()
    addresses.withLock { $0.note(address, at: now) }
  }
  package func leave(_ address: ProvisioningAddress) async { addresses.withLock { $0.forget(address) } }

  package func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool {
    let now = clock.now()
    guard addresses.withLock({ $0.contains(address, at: now) }) else { return false }
    presence.post(.handedOver(bytes, to: address))
    return true
  }

  package func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) { presence.add(handler) }
}
