/// The figures of a campaign's report besides verdicts.
package struct Figures: Sendable, Codable {
  package private(set) var devices = 0
  package private(set) var submissions = 0
  package private(set) var messagesAccepted = 0
  package private(set) var deliveries = 0
  package private(set) var receipts = 0
  package private(set) var undeliverable = 0
  package private(set) var keysDrawn = 0
  package private(set) var connections = 0
  /// Attempts at requests of all kinds, those that were refused with 5xx, and those without an answer.
  package private(set) var requests = 0
  package private(set) var refused = 0
  package private(set) var unanswered = 0
  package private(set) var faults: [String: Int] = [:]
  /// Requests that failed while a rolling restart was the only fault, and none had ended within 30 s before.
  package private(set) var failedInRollingRestart = 0
  package private(set) var requestsInRollingRestart = 0
  /// From a fault's end to the last request that failed for it, in milliseconds, ascending. A fault that another
  /// overlaps, or follows within 10 s, is not measured.
  package private(set) var recoveryMillis: [Int] = []
  package private(set) var returns = Returns()
  package private(set) var maintenance = Stalls(during: .maintenance)

  private struct Ended {
    let at: Moment
    var lastFailure: Moment?
  }
  private var trouble = Trouble()
  private var open: [OperationNumber: Invocation] = [:]
  private var lastOtherEnd = Moment(rawValue: .min / 2)
  private var recovering: Ended?
  private static let recoveryWindow = Duration.seconds(10)
  private static let settled = Duration.seconds(30)

  private enum CodingKeys: String, CodingKey {
    case devices, submissions, messagesAccepted, deliveries, receipts, undeliverable, keysDrawn, connections, requests,
      refused
    case unanswered, faults, failedInRollingRestart, requestsInRollingRestart, recoveryMillis, returns, maintenance
  }

  package init() {}

  package mutating func take(_ event: Event) {
    if let ended = recovering, event.at - ended.at > Self.recoveryWindow { settleRecovery(ended) }
    switch event.fact {
    case .invoked(let operation, let call, let device, let place):
      let invocation = Invocation(operation: operation, call: call, device: device, place: place, at: event.at)
      open[operation] = invocation
      begin(invocation)
    case .answered(let operation, let answer):
      guard let invocation = open.removeValue(forKey: operation) else { return }
      end(invocation, answer, event.at)
    case .unknown(let operation):
      guard let invocation = open.removeValue(forKey: operation) else { return }
      maintenance.ended(invocation, event.at)
      unanswered += 1
      failed(invocation, event.at)
    case .saw(let sight): take(sight, event.at)
    }
  }

  /// The share of recoveries that took no longer, in milliseconds; nil where none was measured.
  package func recovery(_ share: Double) -> Int? {
    guard !recoveryMillis.isEmpty else { return nil }
    return recoveryMillis.sorted()[min(recoveryMillis.count - 1, Int(Double(recoveryMillis.count) * share))]
  }

  private mutating func begin(_ invocation: Invocation) {
    requests += 1
    returns.began(invocation)
    maintenance.began(invocation)
    if isOnlyRollingRestart(invocation) { requestsInRollingRestart += 1 }
    switch invocation.call {
    case .submit: submissions += 1
    case .register: devices += 1
    default: break
    }
  }

  private mutating func end(_ invocation: Invocation, _ answer: Reply, _ now: Moment) {
    maintenance.ended(invocation, now)
    switch (invocation.call, answer) {
    case (_, .refused(let status)):
      if status >= 500 {
        refused += 1
        failed(invocation, now)
      }
    case (.submit, _):
      messagesAccepted += 1
      returns.accepted(invocation, now)
    case (.connect, _): connections += 1
    case (.draw, .keys(let keys)): keysDrawn += keys.count
    default: break
    }
  }

  private mutating func failed(_ invocation: Invocation, _ now: Moment) {
    if isOnlyRollingRestart(invocation) { failedInRollingRestart += 1 }
    if let ended = recovering, now > ended.at { recovering?.lastFailure = now }
  }

  /// Connections end in a rolling restart, and that is no failure: their devices are told to come back. Requests that
  /// were sent over one go over HTTP then.
  private func isOnlyRollingRestart(_ invocation: Invocation) -> Bool {
    guard trouble.active.count == 1, let fault = trouble.active.values.first, fault.kind == .rollingRestart else {
      return false
    }
    return fault.site == invocation.place.site && fault.since - lastOtherEnd > Self.settled
      && invocation.at >= fault.since && invocation.place.process == nil && invocation.place.isLive == nil
  }

  private mutating func take(_ sight: Sight, _ now: Moment) {
    let before = trouble.active
    trouble.take(sight, at: now)
    switch sight {
    case .delivered(let message, let sender, let device, _, _):
      deliveries += 1
      returns.delivered(message, from: sender, to: device, now)
    case .receipt: receipts += 1
    case .undeliverable: undeliverable += 1
    case .faultBegan(_, let kind, let site, let link):
      faults[link.map { "\(kind.rawValue) to \($0.rawValue)" } ?? kind.rawValue, default: 0] += 1
      returns.began(at: site)
      maintenance.changed(trouble.active, now)
      // Another fault began: a failure may be of either.
      recovering = nil
    case .faultEnded(let number):
      if let fault = before[number] {
        if fault.kind != .rollingRestart { lastOtherEnd = now }
        returns.ended(fault, isAlone: trouble.active.isEmpty, now)
      }
      maintenance.changed(trouble.active, now)
      recovering = trouble.active.isEmpty ? Ended(at: now) : nil
    default: break
    }
  }

  private mutating func settleRecovery(_ ended: Ended) {
    recoveryMillis.append(Int((ended.lastFailure.map { $0 - ended.at } ?? .zero) / .milliseconds(1)))
    recovering = nil
  }
}
