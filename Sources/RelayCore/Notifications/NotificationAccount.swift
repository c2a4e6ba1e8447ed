/// A customer whose server sends device notifications.
package struct NotificationAccount: Sendable, Equatable {
  package let name: NotificationUser
  package var password: PasswordHash
  /// Whether it has the right to send and its apps to register.
  package var isPermitted: Bool
  /// The notifications that it may still send, one for each recipient; nil: no limit.
  package var credits: Int64?
  package var quota: NotificationQuota?
  /// How many of the quota the present period has taken, as of reading.
  package var used: Int64
  /// nil: events are only there to be fetched.
  package var eventTarget: EventTarget?
  package let created: Timestamp

  package init(
    name: NotificationUser, password: PasswordHash, isPermitted: Bool = true, credits: Int64? = nil,
    quota: NotificationQuota? = nil, used: Int64 = 0, eventTarget: EventTarget? = nil, created: Timestamp
  ) {
    self.name = name
    self.password = password
    self.isPermitted = isPermitted
    self.credits = credits
    self.quota = quota
    self.used = used
    self.eventTarget = eventTarget
    self.created = created
  }
}

/// How many recipients an account may send to in a day or a month of UTC.
package struct NotificationQuota: Sendable, Equatable {
  package enum Period: String, Sendable, CaseIterable {
    case day, month

    /// A number that is another one in each period.
    package func mark(at now: Timestamp) -> Int64 {
      let time = UTCTime(now)
      return switch self {
      case .day: now.day
      case .month: time.year * 12 + time.month
      }
    }

    /// The period that is counted in now. Of two clocks that differ, the one that is behind still counts in the period
    /// that the other one has begun: its own would begin anew each time.
    /// - Parameter counted: the mark of the last count.
    package func mark(at now: Timestamp, after counted: Int64) -> Int64 {
      let mark = mark(at: now)
      return mark == counted - 1 ? counted : mark
    }
  }

  package let max: Int64
  package let period: Period
  package init(max: Int64, period: Period) {
    self.max = max
    self.period = period
  }
}

/// The address to which an account's events are sent.
package struct EventTarget: Sensitive, Sendable, Equatable {
  package enum Method: String, Sendable, CaseIterable { case post, get }
  package static let kind: StaticString = "event URL"
  /// May hold a secret of the customer's.
  package let url: String
  package let method: Method
  package init(url: String, method: Method) {
    self.url = url
    self.method = method
  }
}

/// The fields of an account that change; the rest stays.
package struct NotificationAccountChange: Sendable {
  package var password: PasswordHash?
  package var isPermitted: Bool?
  package var credits = DeviceChange.Patch<Int64?>.keep
  /// Begins a new count.
  package var quota = DeviceChange.Patch<NotificationQuota?>.keep
  /// An account that had none gets the events that are made from now on.
  package var eventTarget = DeviceChange.Patch<EventTarget?>.keep
  package init() {}
}

/// A set of recipients with a name and perhaps a short one. Both are compared without regard to case.
package struct NotificationGroup: Sendable, Equatable {
  package let name: String
  package let shortName: String?
  /// Ascending. Numbers of no recipient of the account may be among them: they are passed over.
  package var members: [RecipientNumber]
  package init(name: String, shortName: String?, members: [RecipientNumber] = []) {
    self.name = name
    self.shortName = shortName
    self.members = members
  }

  /// The form by which names are compared.
  package static func key(_ name: some StringProtocol) -> String { name.lowercased() }
}

package enum GroupAddition: Sendable, Equatable {
  case added
  /// One of the names is a group's already.
  case taken
  case unknownAccount
}
