/// A leaky bucket's shape (reference 3.6).
package struct Bucket: Sendable, Equatable {
  /// Free space when full, in charges.
  package let size: Double
  /// Charges that leak out, that is space that comes back, each minute.
  package let perMinute: Double
  package init(size: Double, perMinute: Double) {
    self.size = size
    self.perMinute = perMinute
  }
  package var perMillisecond: Double { perMinute / 60_000 }
  /// How long an untouched bucket takes to fill: the life of its state, in milliseconds.
  package var refillMillis: Int64 { perMinute > 0 ? Int64((size / perMillisecond).rounded(.up)) : Int64.max / 4 }
}

/// The limiters, by their names in the configuration (`limits.NAME...`), where `meaning` says that they stand there.
package enum LimiterName: String, Sendable, CaseIterable {
  case smsDestination = "sms-destination"
  case voiceDestination = "voice-destination"
  case verifyNumber = "verify-number"
  case attachments
  case contactQueries = "contact-queries"
  case preKeys = "prekeys"
  case messages
  case allocateDevice = "allocate-device"
  case verifyDevice = "verify-device"
  /// Requests for codes by one client address, and by all together.
  case codeAddress = "code-address"
  case codeTotal = "code-total"
  /// Tries of codes by one client address.
  case verifyAddress = "verify-address"
  /// Wrong codes of one number, whatever the codes and the addresses; and by one client address.
  case wrongCodesHour = "wrong-codes-hour"
  case wrongCodesDay = "wrong-codes-day"
  case wrongCodesAddress = "wrong-codes-address"
  /// Codes of one number.
  case codesDay = "codes-day"
  /// Tries of a registration lock, by number.
  case registrationLock = "registration-lock"
  /// One-time keys that all requesters together take of one device; beyond it the last resort serves.
  case preKeysTarget = "prekeys-target"
  /// Explicit receipts.
  case receipts
  /// Changes that an account makes of itself: prekeys, attributes, push registrations. Each is a write, and peers are
  /// told of some.
  case accountChanges = "account-changes"
  /// One peer's limits here: requests, messages and receipts for our devices, bytes of bodies, and one-time keys.
  case peerRequests = "peer-requests"
  case peerRecipients = "peer-recipients"
  case peerBytes = "peer-bytes"
  case peerPreKeys = "peer-prekeys"
  /// Receipts of one peer, whatever accounts it names.
  case peerReceipts = "peer-receipts"
  /// Contact tokens that one peer asks for (docs/federation.md, "Asking instead of copying").
  case peerTokens = "peer-tokens"
  /// Probes that one peer asks us to run.
  case peerProbes = "peer-probes"
  /// Messages of one account for another that had waited in a peer's outbox, where the peer's relay has charged them.
  case messagesWaited = "messages-waited"
  /// Elements of oblivious look-ups that are evaluated for one account.
  case obliviousElements = "oblivious-elements"
  /// Pages of outputs that one account reads (docs/directory.md, "Oblivious look-up").
  case obliviousPages = "oblivious-pages"
  /// Wrong names, passwords and numbers of device notifications from one client address, and fetchings of events by one
  /// account (docs/device-notifications.md).
  case notificationLookups = "notification-lookups"
  case notificationRetrievals = "notification-retrievals"
  /// New recipients of device notifications from one client address.
  case notificationSubscriptions = "notification-subscriptions"
  /// Requests from one client address that each make an event of device notifications, without a new recipient.
  case notificationEvents = "notification-events"

  /// Reference 3.6, but for `preKeys`, whose 3 and 0.1 no client of five devices gets along with; from `codeAddress`
  /// on our own.
  package var defaultBucket: Bucket {
    switch self {
    case .smsDestination, .verifyNumber, .verifyDevice: Bucket(size: 2, perMinute: 2)
    case .voiceDestination, .allocateDevice: Bucket(size: 2, perMinute: 0.5)
    case .attachments: Bucket(size: 50, perMinute: 50)
    case .contactQueries: Bucket(size: 50_000, perMinute: 50_000)
    // All devices of an account together start, end and begin sessions anew; less comes back than to `preKeysTarget`.
    case .preKeys: Bucket(size: 60, perMinute: 0.4)
    case .messages: Bucket(size: 60, perMinute: 60)
    case .codeAddress: Bucket(size: 50, perMinute: 5)
    case .codeTotal: Bucket(size: 2000, perMinute: 1000)
    case .verifyAddress: Bucket(size: 100, perMinute: 20)
    case .wrongCodesHour: Bucket(size: 15, perMinute: 0.25)
    case .wrongCodesDay: Bucket(size: 50, perMinute: 50.0 / 1440)
    case .wrongCodesAddress: Bucket(size: 200, perMinute: 200.0 / 1440)
    case .codesDay: Bucket(size: 10, perMinute: 10.0 / 1440)
    case .registrationLock: Bucket(size: 10, perMinute: 10.0 / 1440)
    case .preKeysTarget: Bucket(size: 20, perMinute: 1)
    case .receipts: Bucket(size: 300, perMinute: 300)
    case .accountChanges: Bucket(size: 240, perMinute: 60)
    case .peerRequests, .peerRecipients: Bucket(size: 60_000, perMinute: 120_000)
    case .peerReceipts: Bucket(size: 60_000, perMinute: 60_000)
    case .peerBytes: Bucket(size: 256_000_000, perMinute: 512_000_000)
    case .peerPreKeys: Bucket(size: 3000, perMinute: 600)
    case .peerTokens: Bucket(size: 500_000, perMinute: 500_000)
    case .peerProbes: Bucket(size: 5, perMinute: 5)
    case .messagesWaited: Bucket(size: 3600, perMinute: 60)
    case .obliviousElements: Bucket(size: 20_000, perMinute: 1000)
    case .obliviousPages: Bucket(size: 1000, perMinute: 200)
    case .notificationLookups, .notificationRetrievals: Bucket(size: 60, perMinute: 60)
    case .notificationSubscriptions: Bucket(size: 600, perMinute: 10)
    case .notificationEvents: Bucket(size: 1200, perMinute: 60)
    }
  }

  /// The thing that is charged, for the table in docs/configuration.md; nil if the configuration does not set this
  /// limiter.
  package var meaning: String? {
    switch self {
    case .smsDestination: "Codes by text message to one number."
    case .voiceDestination: "Codes by call to one number."
    case .verifyNumber: "Tries to confirm one number, from all addresses."
    case .attachments: "Attachments of one account, and its requests for attachments at peers."
    case .contactQueries: "Contact tokens that one account looks up."
    case .preKeys:
      "Prekeys that one account, with all its devices, draws of one device (or `*`) of one other account; a peer has ten "
        + "times as much. Keep the refill below half of `prekeys-target`'s, so that one account leaves some to others."
    case .messages: "Messages from one account to one other."
    case .allocateDevice: "Device links that one account begins."
    case .verifyDevice: "Tries to confirm a device of one account, from all addresses."
    case .codeAddress: "Codes that one client address asks for."
    case .codeTotal: "Codes that all clients ask for together."
    case .verifyAddress: "Codes and number tokens that one client address tries."
    case .wrongCodesHour: "Wrong codes of one number within about an hour, from all addresses; linking codes apart."
    case .wrongCodesDay: "Wrong codes of one number within about a day."
    case .wrongCodesAddress: "Wrong codes of one client address within about a day, for all numbers."
    case .codesDay:
      "Codes sent to one number within about a day, by text message and call; and linking codes of one account."
    case .registrationLock: "Tries of one account's registration lock."
    case .preKeysTarget:
      "One-time keys that all accounts and peers together draw of one device; beyond it the key of last resort serves."
    case .receipts: "Explicit receipts of one account."
    case .accountChanges:
      "Prekeys uploaded, attributes and push registrations set or cleared, by one account with all its devices."
    case .peerRequests, .peerRecipients, .peerBytes, .peerPreKeys, .peerReceipts, .peerTokens: meaningOfPeers
    case .obliviousElements: "Contacts that one account has evaluated in oblivious look-ups."
    case .obliviousPages: "Pages of outputs that one account reads in oblivious look-ups."
    case .notificationLookups:
      "Wrong names, passwords and recipient numbers of device notifications from one client address; beyond it 429."
    case .notificationEvents:
      "`subscribe` with a number, `unsubscribe` and `unsubscribeall` from one client address; beyond it 429."
    // Part of an interface rather than of a relay's size: the outbox's pace is agreed on with peers
    // (docs/federation.md), the reference of device notifications gives 60 retrievals a minute, and probes answer a
    // person at a terminal.
    case .peerProbes, .messagesWaited, .notificationRetrievals, .notificationSubscriptions: nil
    }
  }

  private var meaningOfPeers: String? {
    switch self {
    case .peerRequests: "Requests of one peer; a batch of messages or draws is one request."
    case .peerRecipients: "Messages and receipts of one peer for devices here."
    case .peerBytes: "Bytes that one peer sends."
    case .peerPreKeys: "Prekeys that one peer asks for."
    case .peerReceipts: "Receipts of one peer, from all of its accounts."
    case .peerTokens: "Contact tokens that one peer asks for."
    default: nil
    }
  }
}

/// The state of one bucket, and the rule of reference 3.6 as corrected: the space is a real number and the
/// time moves on every allowed call.
package struct LeakyBucket: Sendable, Equatable {
  package private(set) var space: Double
  package private(set) var updated: Timestamp

  /// A full bucket.
  package init(_ bucket: Bucket, at now: Timestamp) {
    space = bucket.size
    updated = now
  }

  /// Charges `amount` if there is room for all of it, else changes nothing.
  package mutating func take(_ amount: Double, from bucket: Bucket, at now: Timestamp) -> LimitDecision {
    let available = space(in: bucket, at: now)
    guard available >= amount else {
      return .refused(retryAfter: Self.wait(for: amount, available: available, in: bucket))
    }
    space = available - amount
    updated = max(now, updated)
    return .allowed
  }

  /// The space that is free at `now`.
  package func space(in bucket: Bucket, at now: Timestamp) -> Double {
    let elapsed = Double(max(0, now.millis - updated.millis))
    return min(bucket.size, space + elapsed * bucket.perMillisecond)
  }

  /// - Returns: nil when `amount` can never pass.
  package static func wait(for amount: Double, available: Double, in bucket: Bucket) -> Duration? {
    guard amount <= bucket.size, bucket.perMillisecond > 0 else { return nil }
    return .milliseconds(Int64(((amount - available) / bucket.perMillisecond).rounded(.up)))
  }
}

package enum LimitDecision: Sendable, Equatable {
  case allowed
  /// Nothing was charged. `retryAfter` is nil when waiting cannot help.
  case refused(retryAfter: Duration?)

  /// The decision on two charges that stand or fall together: the longer wait of those that refuse.
  package func and(_ other: LimitDecision) -> LimitDecision {
    switch (self, other) {
    case (.allowed, let decision), (let decision, .allowed): decision
    case (.refused(let first?), .refused(let second?)): .refused(retryAfter: max(first, second))
    case (.refused, .refused): .refused(retryAfter: nil)
    }
  }
}

/// The decision on charges that stand or fall together, and on others that are made only behind these.
package struct ChainedDecision: Sendable, Equatable {
  package let first: LimitDecision
  /// One for each of the others, which stand or fall alone. All are refused, without a time to wait, if the first are.
  package let further: [LimitDecision]

  package init(_ first: LimitDecision, further: [LimitDecision]) {
    self.first = first
    self.further = first == .allowed ? further : further.map { _ in .refused(retryAfter: nil) }
  }

  /// - Parameter count: of the others, none of which was charged.
  package init(_ first: LimitDecision, refusing count: Int) {
    self.first = first
    further = Array(repeating: .refused(retryAfter: nil), count: count)
  }
}
