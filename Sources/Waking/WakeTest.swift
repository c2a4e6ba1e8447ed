package import RelayCore
import RelayWork

/// A wake-up that an operator asks for, followed through the store hop by hop: the processes that serve carry it out.
package struct WakeTest: Sendable {
  package enum Hop: Sendable, Equatable {
    case asked(WakeProvider)
    case claimed
    case attempted(WakeAttempt)
  }

  package enum Verdict: Sendable, Equatable {
    /// The provider has taken it.
    case woken(WakeAttempt)
    case failed(WakeFault)
  }

  private let store: any WakeStore & AccountStore
  private let terms: WakeTerms
  /// Until then a process should have taken it.
  private let claimPatience: Duration
  private let patience: Duration

  /// - Parameters:
  ///   - terms: as the processes have them.
  ///   - patience: less than `WakeTerms.testLifetime`.
  package init(
    _ store: any WakeStore & AccountStore, _ terms: WakeTerms, claimPatience: Duration = .seconds(60),
    patience: Duration = .seconds(110)
  ) {
    self.store = store
    self.terms = terms
    self.claimPatience = claimPatience
    self.patience = patience
  }

  /// - Parameters:
  ///   - isForced: whether a device that is connected is pushed to all the same.
  ///   - report: is told each hop, in order.
  package func run(
    _ device: DeviceAddress, isForced: Bool = false, report: (Hop) -> Void
  ) async throws(StoreError) -> Verdict {
    guard let found = try await store.account(device.account)?.device(device.device) else { return .failed(.noDevice) }
    guard let provider = found.pushIDs.provider else { return .failed(.noPushID) }
    guard terms.providers.contains(provider) else { return .failed(.notConfigured) }
    let before = try await store.wakeHistory(of: device)
    let lastSweep = try await store.lastWakeSweep()
    guard try await store.askToWakeForTest(device, isForced: isForced, terms) else { return .failed(.noPushID) }
    report(.asked(provider))
    return try await follow(device, since: before, lastSweep, report)
  }

  private func follow(
    _ device: DeviceAddress, since before: [WakeAttempt], _ lastSweep: Timestamp, _ report: (Hop) -> Void
  )
    async throws(StoreError) -> Verdict
  {
    let began = ContinuousClock.now
    var isClaimed = false
    var reported = 0
    var last: WakeFault?
    while ContinuousClock.now - began < patience {
      // The new part of the history, the oldest first. The job is read first, because a settlement writes the history
      // together with the job.
      let waiting = try await store.waitingWake(of: device)
      let history = try await store.wakeHistory(of: device)
      let tests = history.prefix { !before.contains($0) }.filter(\.isTest).reversed()
      if !isClaimed, !tests.isEmpty || waiting?.isClaimed == true {
        isClaimed = true
        report(.claimed)
      }
      // No result was written down: the job of a device that connects is forgotten.
      if waiting == nil, tests.isEmpty { return .failed(.connected) }
      for attempt in tests.dropFirst(reported) {
        report(.attempted(attempt))
        if let verdict = Self.verdict(attempt) { return verdict }
        last = WakeFault(attempt)
      }
      reported = tests.count
      if !isClaimed, ContinuousClock.now - began > claimPatience {
        return .failed(try await unclaimed(since: lastSweep))
      }
      // Cancelled with the command: then this is its end.
      guard await Pause.for(Self.pause) else { break }
    }
    return .failed(last ?? (isClaimed ? .silent : .noProcess))
  }

  /// Processes that wake devices sweep every half a minute: where one has done so meanwhile, it had too much to do.
  private func unclaimed(since lastSweep: Timestamp) async throws(StoreError) -> WakeFault {
    try await store.lastWakeSweep() > lastSweep ? .busy : .noProcess
  }

  /// nil where another attempt follows that tells more.
  private static func verdict(_ attempt: WakeAttempt) -> Verdict? {
    if attempt.outcome == .connected { return .failed(.connected) }
    guard let fault = WakeFault(attempt) else { return .woken(attempt) }
    switch fault {
    case .halted, .busy: return nil
    default: return attempt.outcome == .superseded ? nil : .failed(fault)
    }
  }

  private static let pause = Duration.milliseconds(100)
}
