/// The devices that are to be woken by push, at most one job a device, and what became of earlier ones
/// (docs/waking.md). All times are the store's: processes whose clocks differ agree.
package protocol WakeStore: Sendable {
  /// Notes that a process sends through `providers`.
  /// - Returns: those that some process has sent through within `WakeTerms.announcedFor`.
  func announceWakeProviders(_ providers: [WakeProvider]) async throws(StoreError) -> [WakeProvider]

  /// Asks for each of `asks` that has an id of one of the terms' providers, after forgetting the jobs of those that
  /// have `connected`, in a transaction of its own. A device that waits already waits as before, and no longer than
  /// asked for now; one that was just woken rests first; one that is just being woken comes again.
  /// - Parameters:
  ///   - asks: each device once.
  ///   - connected: each device once. In any state, claimed or at rest, but for those that were asked for since.
  /// - Returns: how many are waiting because of it.
  func askToWake(_ asks: [WakeAsk], afterForgetting connected: [WakeRelease], _ terms: WakeTerms)
    async throws(StoreError) -> Int

  /// Asks for a wake-up that is sent at once, though nothing waits and whatever state the device's job is in. It is
  /// worth sending for `WakeTerms.testLifetime`, unless the device waits for more. The operator soon gives up.
  /// - Parameter isForced: whether it is sent though the device is connected.
  /// - Returns: false when the device is gone or has no id of one of the terms' providers.
  func askToWakeForTest(_ device: DeviceAddress, isForced: Bool, _ terms: WakeTerms) async throws(StoreError) -> Bool

  /// Takes at most `limit` due jobs of `provider`, the longest due first; nobody else is given them until `duration`
  /// has passed, or they are settled.
  /// - Parameter claim: a random number, another one for each call.
  func claimWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration) async throws(StoreError)
    -> [WakeJob]

  /// Extends the claims on `jobs` until `duration` from now: no other process is given them. Jobs that were settled,
  /// forgotten or claimed anew since are left alone.
  /// - Parameter jobs: each device once.
  func renewWakes(_ jobs: [WakeJob], for duration: Duration) async throws(StoreError)

  /// Makes the jobs that were taken with `claim` due at once, as if they had not been: whoever took them was not told.
  func returnWakes(claim: Int64) async throws(StoreError)

  /// Settles claimed jobs, and writes down what the flight recorder keeps, all in one transaction. Jobs that were
  /// forgotten or claimed anew since stay as they are.
  func settleWakes(_ settlements: [WakeSettlement]) async throws(StoreError)

  /// - Parameter max: envelopes that are looked at, the oldest ones.
  func glance(at mailbox: DeviceAddress, countingTo max: Int) async throws(StoreError) -> MailboxGlance

  /// Puts `replacement` in the place of the id `former`, or, without one, clears it, which for GCM also ends
  /// `fetchesMessages` (reference 3.9), and lists the account anew.
  /// - Parameter moment: the provider's word holds for ids that were registered before; nil for all.
  /// - Returns: false, with nothing stored, when the device has another id by now, or registered it since.
  func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool

  /// Begins a sweep unless another began less than `pause` ago. `sweepWakes` then looks at the messages that had been
  /// accepted when that other one began. Also forgets what is past keeping. If no sweep began for longer than the
  /// terms' lifetime, the messages that came meanwhile are left out.
  func beginWakeSweep(pause: Duration, _ terms: WakeTerms) async throws(StoreError)
  /// When the last sweep began: some process that wakes devices was alive then.
  func lastWakeSweep() async throws(StoreError) -> Timestamp

  /// Asks for the devices that have unacknowledged messages in the next stretch of what is to be looked at, unless
  /// they wait already, or were claimed for a wake-up since the message was accepted.
  /// - Parameters:
  ///   - stretch: in sequences of messages.
  ///   - reach: beyond so many sequences the oldest are left out.
  func sweepWakes(stretch: Int64, reach: Int64, _ terms: WakeTerms) async throws(StoreError) -> WakeSweepStep

  /// nil when the device waits for nothing.
  func waitingWake(of device: DeviceAddress) async throws(StoreError) -> WaitingWake?
  /// The newest first, at most `WakeAttempt.keptMax`.
  func wakeHistory(of device: DeviceAddress) async throws(StoreError) -> [WakeAttempt]
  /// The queue of every provider for which something waits. Counts are bounded.
  func wakeQueue() async throws(StoreError) -> [WakeQueueUsage]
}

// How devices that nobody holds a connection of come to be woken by push (docs/waking.md).

/// Asks that devices be woken by push. Implemented by Waking, used by Relay's hub.
package protocol Notifier: Sendable {
  /// Something was stored for `devices`, durably, and they are connected nowhere. Returns at once; what does not fit
  /// is dropped, and found by the sweep.
  ///
  /// - Parameter isCertain: false where nobody could be asked: they are woken a little later, unless they turn out to
  ///   be connected.
  func absent(_ devices: [DeviceAddress], isCertain: Bool)
  /// The device has connected: whoever was to wake it need not. Returns at once.
  func connected(_ device: DeviceAddress)
}

/// The devices that are connected, to whatever process. Implemented by Relay, used by Waking.
package protocol LiveDevices: Sendable {
  /// Tells those of `devices` that are connected to read their mailboxes.
  /// - Returns: those that are not, and those of which nobody can tell; in no order.
  func lookAgain(_ devices: [DeviceAddress]) async -> [DeviceAddress]
}
