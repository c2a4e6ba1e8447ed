package import Push
package import RelayCore

/// The decision about a push after an attempt.
package enum PushVerdict: Sendable, Equatable {
  case done
  /// - Parameter since: only registrations that are older are meant; nil for all.
  case keyIsDead(since: Timestamp?)
  /// - Parameter isCounted: whether there was an attempt.
  case again(at: Timestamp, isCounted: Bool)
  /// No more attempts: what another one could not change, or too late.
  case dropped(word: String)
}

extension PushVerdict {
  /// How long the first attempt may come late: whatever the time to live, each push gets one, behind a long queue of
  /// others too. Only where nobody was there to make it, it gets none.
  static let lateness = Duration.seconds(300)

  /// Whether an attempt is still worth its while.
  static func isDue(_ job: NotificationJob, at now: Timestamp) -> Bool {
    now < (job.attempt == 1 ? job.expires.adding(lateness) : job.expires)
  }

  package init(_ outcome: PushOutcome, of job: NotificationJob, at now: Timestamp) {
    switch outcome {
    case .delivered: self = .done
    case .dead(let reason, let since):
      // Lanes call other things dead too. Only a reason about the key itself counts.
      self =
        Self.meansKey(reason, of: job.key.provider.service) ? .keyIsDead(since: since) : .dropped(word: reason.word)
    case .refused(let reason): self = .dropped(word: reason.word)
    case .temporary(let reason, let asked):
      let isCounted = reason.kind != .local
      let pause = isCounted ? max(RetryPause.after(job.attempt), asked ?? .zero) : max(asked ?? .zero, .seconds(1))
      let next = now.adding(pause)
      self = next < job.expires ? .again(at: next, isCounted: isCounted) : .dropped(word: reason.word)
    case .several: self = .dropped(word: "several")
    }
  }

  /// A project or topic of ours that is wrong must not cost everybody's keys.
  private static func meansKey(_ reason: PushReason, of service: NotificationService) -> Bool {
    switch service {
    case .apns:
      ["Unregistered", "ExpiredToken", "BadDeviceToken", "DeviceTokenNotForTopic", "bad-device-token"]
        .contains(reason.word)
    case .fcm: reason.status == 400 || reason.word == "UNREGISTERED"
    }
  }
}

/// Growing pauses between attempts: 10 s doubling to 10 min.
enum RetryPause {
  /// - Parameter attempts: how many there were, 1 or more.
  static func after(_ attempts: Int) -> Duration {
    .seconds(min(600, 10 << min(max(attempts, 1) - 1, 6)))
  }
}
