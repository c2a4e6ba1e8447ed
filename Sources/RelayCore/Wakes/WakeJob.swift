/// A device that is to be woken.
package struct WakeAsk: Sendable, Equatable {
  package let device: DeviceAddress
  /// How long to wait with it.
  package let delay: Duration
  package init(_ device: DeviceAddress, after delay: Duration = .zero) {
    self.device = device
    self.delay = delay
  }
}

/// A device that has connected: it need not be woken for what was asked for before.
package struct WakeRelease: Sendable, Equatable {
  package let device: DeviceAddress
  /// How long ago it connected.
  package let age: Duration
  package init(_ device: DeviceAddress, age: Duration = .zero) {
    self.device = device
    self.age = age
  }
}

/// Under which conditions devices are woken at all.
package struct WakeTerms: Sendable, Equatable {
  /// The providers that some process sends through. Devices of other providers are passed over.
  package let providers: [WakeProvider]
  /// How long after it was last asked for a device may still be woken.
  package let lifetime: Duration
  package init(providers: [WakeProvider], lifetime: Duration) {
    self.providers = providers
    self.lifetime = lifetime
  }

  /// For so long a provider counts as served that a process has announced: longer than any restart takes.
  package static let announcedFor = Duration.seconds(86_400)
  /// A time that lies further ahead comes from a clock that was wrong.
  package static let skew = Duration.seconds(60)

  /// How long a wake-up that an operator asked for is worth sending.
  package var testLifetime: Duration { min(lifetime, .seconds(120)) }
}

/// A device's wake-up, claimed by one process for a while.
package struct WakeJob: Sendable, Equatable {
  package let device: DeviceAddress
  package let provider: WakeProvider
  /// Tells this claim from every other.
  package let claim: Int64
  /// Rises whenever the device is asked for again.
  package let version: Int64
  package let requested: Timestamp
  package let claimed: Timestamp
  /// When it is not worth sending any more.
  package let expires: Timestamp
  /// How often it was claimed, this time included.
  package let attempt: Int
  /// Whether a VoIP push went before it that the device has not followed.
  package let followsCall: Bool
  /// Whether an operator asked for it: then it is sent though nothing waits.
  package let isTest: Bool
  /// For a test: whether it is sent though the device is connected.
  package let isForced: Bool

  package init(
    device: DeviceAddress, provider: WakeProvider, claim: Int64, version: Int64, requested: Timestamp,
    claimed: Timestamp, expires: Timestamp, attempt: Int, followsCall: Bool, isTest: Bool, isForced: Bool = false
  ) {
    self.device = device
    self.provider = provider
    self.claim = claim
    self.version = version
    self.requested = requested
    self.claimed = claimed
    self.expires = expires
    self.attempt = attempt
    self.followsCall = followsCall
    self.isTest = isTest
    self.isForced = isForced
  }

  /// By the store's clock, which both times are of.
  package var isExpired: Bool { expires <= claimed }
}

/// The next step for a claimed job.
package enum WakeDisposal: Sendable, Equatable {
  /// It is over. One that was asked for again meanwhile is due at once.
  case drop
  /// It is over, and for `pause` the device is not woken again. The store remembers for `memory`, which is longer,
  /// that it was.
  case rest(pause: Duration, memory: Duration)
  /// Not sooner than after that.
  /// - Parameter counts: whether this was an attempt at all.
  case putOff(Duration, counts: Bool = true)
  /// Looked at again after that, or at once when it is asked for again.
  case lookAgain(after: Duration)
  /// A VoIP push was sent: the ordinary one follows after that, if the device has not connected.
  case follow(after: Duration)
}

package struct WakeSettlement: Sendable, Equatable {
  package let job: WakeJob
  package let disposal: WakeDisposal
  /// The attempt as it is counted; nil if there is nothing worth counting.
  package let attempt: WakeAttempt?
  /// The attempt as the flight recorder keeps it; nil for one that does not explain why the device was not woken.
  /// Such attempts would push out the useful ones.
  package let recorded: WakeAttempt?
  package init(_ job: WakeJob, _ disposal: WakeDisposal, attempt: WakeAttempt?, isRecorded: Bool = true) {
    self.job = job
    self.disposal = disposal
    self.attempt = attempt
    recorded = isRecorded ? attempt : nil
  }
}

/// A wake-up as it stands in the store, for those who look at it from outside.
package struct WaitingWake: Sendable, Equatable {
  package let provider: WakeProvider
  package let requested: Timestamp
  /// When it is due; while it is claimed, when the claim ends.
  package let due: Timestamp
  package let isClaimed: Bool
  package let isTest: Bool
  package init(provider: WakeProvider, requested: Timestamp, due: Timestamp, isClaimed: Bool, isTest: Bool) {
    self.provider = provider
    self.requested = requested
    self.due = due
    self.isClaimed = isClaimed
    self.isTest = isTest
  }
}

/// The jobs that wait for one provider.
package struct WakeQueueUsage: Sendable, Equatable {
  package let provider: WakeProvider
  package let count: Int
  /// How long the oldest has been waiting.
  package let oldest: Duration
  package init(provider: WakeProvider, count: Int, oldest: Duration) {
    self.provider = provider
    self.count = count
    self.oldest = oldest
  }
}

/// The counts of a mailbox's oldest envelopes.
package struct MailboxGlance: Sendable, Equatable {
  /// Envelopes, counted to the limit at most.
  package let count: Int
  /// The envelopes among them that are no notices.
  package let messages: Int
  package init(count: Int, messages: Int) {
    self.count = count
    self.messages = messages
  }
}

/// The outcome of one step of the sweep.
package struct WakeSweepStep: Sendable, Equatable {
  /// Devices that are to be woken because of it.
  package let asked: Int
  /// Whether there is nothing left to look at for now.
  package let isDone: Bool
  package init(asked: Int, isDone: Bool) {
    self.asked = asked
    self.isDone = isDone
  }
}
