// What the processes of one operator share besides durable storage: only what may be lost.

/// Charges leaky buckets, atomically across all processes.
package protocol RateLimiter: Sendable {
  /// Never throws: when the shared state is away, each process falls back to buckets of its own.
  /// - Parameters:
  ///   - amount: below 0 gives back what was charged.
  ///   - key: who is charged. It is hashed before it leaves the process.
  func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision

  /// Takes all of `charges`, at most `WireLimits.limitChargesMax` for different buckets, or none: atomically, in one
  /// round trip. Never throws, as `take`.
  /// - Returns: the longest wait of those that refuse.
  func take(_ charges: [LimitCharge]) async -> LimitDecision

  /// Takes each of `takes`, one charge at least, by itself and in their order, as `take` does; in one round trip where that
  /// is possible.
  /// - Returns: one decision for each.
  func take(each takes: [[LimitCharge]]) async -> [LimitDecision]

  /// The free space of a bucket just now, in charges: for showing it.
  func space(in limiter: LimiterName, key: LimitKey) async -> Double

  /// The size and rate of the buckets of `limiter`, as they are now.
  func shape(of limiter: LimiterName) -> Bucket
}

/// One bucket's part of a charge of several.
package struct LimitCharge: Sendable {
  package let amount: Double
  package let limiter: LimiterName
  package let key: LimitKey
  package init(_ amount: Double, from limiter: LimiterName, key: LimitKey) {
    self.amount = amount
    self.limiter = limiter
    self.key = key
  }
}

/// The key of a bucket: up to two accounts and a device, as reference 3.6 composes them, perhaps of one peer.
package struct LimitKey: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "limit key"
  package let text: String
  package init(_ account: AccountNumber) { text = account.e164 }
  package init(_ own: AccountNumber, _ target: AccountNumber) { text = "\(own.e164)__\(target.e164)" }
  package init(_ own: AccountNumber, _ target: AccountNumber, _ selector: DeviceSelector) {
    text = "\(own.e164)__\(target.e164).\(selector.text)"
  }
  package init(_ target: AccountNumber, _ selector: DeviceSelector) { text = "\(target.e164).\(selector.text)" }
  package init(_ network: ClientNetwork) { text = network.prefix.map(String.init).joined(separator: ".") }
  package init(_ device: DeviceAddress) { text = "\(device.account.e164).\(device.device)" }
  /// An account that a device is being linked to, apart from its registration.
  package init(linkingTo account: AccountNumber) { text = "\(account.e164)__link" }
  /// The same subject as one client asks for it.
  package func from(_ origin: RequestOrigin) -> LimitKey {
    LimitKey(text: "\(text)__from__\(origin.address?.networks.first.map { LimitKey($0).text } ?? "*")")
  }
  /// The same subject as all ask for it together who have no share in it of their own.
  package var byStrangers: LimitKey { LimitKey(text: text + "__strangers") }
  /// `key`, of what `peer` says of its accounts: no other peer, and no client of ours, shares the bucket. Keys of
  /// numbers begin with a plus sign, which no name holds.
  package init(_ peer: RelayName, _ key: LimitKey) { text = "\(peer)__\(key.text)" }
  /// All that `peer` does here.
  package init(_ peer: RelayName) { text = "\(peer)__" }
  /// A relay that is no peer, known by its CA's key alone: `fingerprint` is hexadecimal. No name holds a colon.
  package init(authority fingerprint: String) { text = "ca:\(fingerprint)" }
  /// An account of device notifications.
  package init(_ user: NotificationUser) { text = "dpn:\(user)" }
  private init(text: String) { self.text = text }
  /// One bucket for all.
  package static let everyone = LimitKey(text: "*")
}

/// A change that other processes may have cached the past of.
package enum Signal: Sendable, Equatable {
  case accountChanged(AccountNumber)
  case peersChanged
}

package enum SignalEvent: Sendable, Equatable {
  case signal(Signal)
  /// From here on every signal arrives.
  case connected
  /// Signals may be missed until the next `connected`: what is cached may be stale.
  case disconnected
}

/// Carries signals to every process of the operator, this one included.
package protocol SignalBus: Sendable {
  /// Best effort; never throws. A signal that is lost shows as `disconnected` at its listeners.
  func publish(_ signal: Signal) async
  /// Calls `handler` for each event, in order, on the bus's own thread: it must not block. The present state is
  /// reported at once.
  func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void)
}

/// Limits, signals, presence, and their life.
package protocol Coordination: RateLimiter, SignalBus, Presence, ContactBudget {
  /// Gives the limiters other shapes from here on. Charges made before stay in force.
  /// - Parameter buckets: those that differ from `LimiterName.defaultBucket`.
  func setLimits(_ buckets: [LimiterName: Bucket])
  /// nil when shared state is served, else why not, for `/readyz` and metrics.
  func degradation() async -> String?
  /// nil when nothing outlives this process.
  var epochWitness: (any EpochWitness)? { get }
  /// nil when there is one process.
  var pushBoard: (any PushBoard)? { get }
  func close() async
}
