import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct NotificationContract {
  @Test(arguments: Backend.allCases)
  func `an account is added once, read, changed, and removed with what it has`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try Sample.user()
      var account = try Sample.account()
      account.credits = 7
      account.quota = NotificationQuota(max: 5, period: .month)
      account.eventTarget = EventTarget(url: "https://example.org/e?x=1", method: .get)
      let isAdded = try await store.storage.addNotificationAccount(account)
      let isAddedAgain = try await store.storage.addNotificationAccount(account)
      #expect(isAdded && !isAddedAgain)
      var known = try await store.storage.notificationAccount(user, now: store.now)
      #expect(known == account)
      var change = NotificationAccountChange()
      change.password = PasswordHash(salt: [9], hash: [8])
      change.isPermitted = false
      change.credits = .set(nil)
      change.quota = .set(nil)
      change.eventTarget = .set(nil)
      let isChanged = try await store.storage.changeNotificationAccount(user, change, now: store.now)
      #expect(isChanged)
      known = try await store.storage.notificationAccount(user, now: store.now)
      #expect(known?.password == PasswordHash(salt: [9], hash: [8]) && known?.isPermitted == false)
      #expect(known?.credits == nil && known?.quota == nil && known?.eventTarget == nil)
      let other = try Sample.user("Acme")
      let isOtherChanged = try await store.storage.changeNotificationAccount(other, change, now: store.now)
      #expect(!isOtherChanged)
      #expect(try await store.storage.notificationAccounts(now: store.now).map(\.name) == [user])
      let isRemoved = try await store.storage.removeNotificationAccount(user)
      let isRemovedAgain = try await store.storage.removeNotificationAccount(user)
      #expect(isRemoved && !isRemovedAgain)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a removed account's data is gone, and its recipients' numbers are nobody else's`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 2)
      let group = NotificationGroup(name: "All", shortName: nil, members: [try Sample.recipient(1)])
      #expect(try await store.storage.addNotificationGroup(group, of: user) == .added)
      _ = try await store.sent(to: ["all"], of: user)
      #expect(try await store.storage.removeNotificationAccount(user))
      let again = try await store.addAccount()
      #expect(try await store.events(of: again).isEmpty)
      #expect(try await store.storage.notificationGroups(of: again).isEmpty)
      #expect(try await store.claimed().isEmpty)
      let first = try Sample.recipient(1)
      #expect(try await store.storage.recipient(first, of: again) == nil)
      let taken = try await store.storage.addRecipient(
        first, Sample.fcm, of: again, subject: Sample.noText, now: store.now)
      #expect(taken == .numberTaken)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a name is one group's, long or short, whatever its case`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount()
      let members = [try Sample.recipient(1), try Sample.recipient(2)]
      let group = NotificationGroup(name: "Testers", shortName: "tst", members: members)
      let outcomes = [
        try await store.storage.addNotificationGroup(group, of: user),
        try await store.storage.addNotificationGroup(NotificationGroup(name: "TESTERS", shortName: nil), of: user),
        try await store.storage.addNotificationGroup(NotificationGroup(name: "Tst", shortName: nil), of: user),
        try await store.storage.addNotificationGroup(NotificationGroup(name: "x", shortName: "testers"), of: user),
        try await store.storage.addNotificationGroup(group, of: try Sample.user("nobody")),
      ]
      #expect(outcomes == [.added, .taken, .taken, .taken, .unknownAccount])
      #expect(try await store.storage.notificationGroups(of: user) == [group])
      let third = try Sample.recipient(3)
      let isChanged = try await store.storage.changeMembers(
        of: "testers", of: user, adding: [third, third], removing: [members[0], third])
      #expect(isChanged)
      #expect(try await store.storage.notificationGroups(of: user).first?.members == [members[1], third])
      let isUnknownChanged = try await store.storage.changeMembers(of: "none", of: user, adding: [third], removing: [])
      #expect(!isUnknownChanged)
      let isRemoved = try await store.storage.removeNotificationGroup("TESTERS", of: user)
      let isRemovedAgain = try await store.storage.removeNotificationGroup("TESTERS", of: user)
      #expect(isRemoved && !isRemovedAgain)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a recipient goes through its states, and each change has its event or none`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.storage.raiseMessageNumber(to: 100)
      let user = try await store.addAccount(recipients: 1)
      let other = try await store.addAccount("beta")
      let number = try Sample.recipient(1)
      let subject = NotificationText("a\0b\u{1F600}")
      let isSubscribed = try await store.storage.subscribe(
        number, Sample.apns, of: user, subject: subject, now: store.now)
      let isOthers = try await store.storage.subscribe(
        number, Sample.apns, of: other, subject: subject, now: store.now)
      #expect(isSubscribed && !isOthers)
      try await store.storage.unsubscribe(number, of: user, fromAll: false, subject: subject, now: store.now)
      try await store.storage.unsubscribe(number, of: other, fromAll: true, subject: subject, now: store.now)
      #expect(try await store.storage.recipient(number, of: user)?.isActive == true)
      try await store.storage.unsubscribe(number, of: user, fromAll: true, subject: subject, now: store.now)
      let inactive = try await store.storage.recipient(number, of: user)
      #expect(inactive?.isActive == false && inactive?.key == Sample.apns)
      // Inactive: no event.
      try await store.storage.unsubscribe(number, of: user, fromAll: false, subject: subject, now: store.now)
      try await store.storage.unsubscribe(number, of: user, fromAll: true, subject: subject, now: store.now)
      let outcomes = [
        try await store.storage.replaceKey(of: number, by: Sample.fcm, of: user, now: store.now),
        try await store.storage.replaceKey(of: number, by: Sample.fcm, of: user, now: store.now),
        try await store.storage.replaceKey(of: number, by: Sample.fcm, of: other, now: store.now),
      ]
      #expect(outcomes == [.reactivated, .replaced, .unknownRecipient])
      let events = try await store.events(of: user)
      #expect(events.map(\.action) == [.subscribed, .subscribed, .unsubscribed, .unsubscribedAll])
      #expect(events.map(\.number) == [101, 102, 103, 104])
      #expect(events.dropFirst().allSatisfy { $0.subject == subject && $0.recipient == number && !$0.isOurs })
      #expect(try await store.events(of: user, after: 103).map(\.number) == [104])
      #expect(try await store.events(of: other).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `nobody registers where there is no account, or none that may`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let number = try Sample.recipient(1)
      func add(_ user: NotificationUser) async throws -> RecipientAddition {
        try await store.storage.addRecipient(number, Sample.fcm, of: user, subject: Sample.noText, now: store.now)
      }
      #expect(try await add(try Sample.user()) == .unknownAccount)
      let user = try await store.addAccount()
      var change = NotificationAccountChange()
      change.isPermitted = false
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      #expect(try await add(user) == .unknownAccount)
      change.isPermitted = true
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      #expect(try await add(user) == .added)
      #expect(try await add(user) == .numberTaken)
      #expect(try await store.events(of: user).map(\.number) == [1])
    }
  }

  @Test(arguments: Backend.allCases)
  func `words of a list stand for numbers first, then names, then short names`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 4)
      _ = try await store.addAccount("beta")
      let foreign = try Sample.recipient(9)
      _ = try await store.storage.addRecipient(
        foreign, Sample.fcm, of: try Sample.user("beta"), subject: Sample.noText, now: store.now)
      let numbers = try (1...4).map { try Sample.recipient($0) }
      let named = NotificationGroup(
        name: "Ärzte", shortName: "doc", members: [numbers[0], numbers[1], foreign, try Sample.recipient(77)])
      // Hidden by the recipient of that number.
      let hidden = NotificationGroup(name: numbers[2].text, shortName: nil, members: [numbers[3]])
      #expect(try await store.storage.addNotificationGroup(named, of: user) == .added)
      #expect(try await store.storage.addNotificationGroup(hidden, of: user) == .added)
      func count(_ words: String...) async throws -> SendOutcome { try await store.send(to: words, of: user) }
      let first = try await count("ÄRZTE", "unknown", foreign.text)
      #expect(first == .sent(number: 6, recipients: 2))
      #expect(
        try await count("DOC", numbers[0].text, numbers[2].text, numbers[2].text) == .sent(number: 7, recipients: 3))
      #expect(try await count("unknown", "12", foreign.text) == .noRecipients)
      try await store.storage.unsubscribe(
        numbers[2], of: user, fromAll: true, subject: Sample.noText, now: store.now)
      // It stands for the recipient all the same.
      #expect(try await count(numbers[2].text) == .noRecipients)
      #expect(try await store.send(to: ["doc"], of: user, recipientsMax: 1) == .tooManyRecipients)
      #expect(try await store.send(to: ["doc"], of: try Sample.user("nobody")) == .denied)
    }
  }

  /// Apps ask for what is behind the last one that they have seen.
  @Test(arguments: Backend.allCases)
  func `after a restore no notification gets a number that was given before`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      // Where none was given, numbers begin with the first.
      try await store.storage.setAsideOneTimePreKeys(epoch: 1, by: .process, behind: .zero)
      let user = try await store.addAccount(recipients: 1)
      let word = try Sample.recipient(1).text
      let before = try await store.sent(to: [word], of: user)
      #expect(before < 10)
      try await store.storage.setAsideOneTimePreKeys(epoch: 2, by: .process, behind: .zero)
      let after = try await store.sent(to: [word], of: user)
      #expect(after > before + 1 << 32 && after < 1_000_000_000_000_000_000)
      try await store.storage.raiseMessageNumber(to: 999_999_999_999_999_998)
      try await store.storage.setAsideOneTimePreKeys(epoch: 3, by: .process, behind: .zero)
    }
  }

  @Test(arguments: Backend.allCases)
  func `credits and quota go down by recipients, and a new period begins anew`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 3)
      var change = NotificationAccountChange()
      change.credits = .set(6)
      change.quota = .set(NotificationQuota(max: 4, period: .day))
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      let all = try (1...3).map { try Sample.recipient($0).text }
      func send(_ words: [String]) async throws -> SendOutcome { try await store.send(to: words, of: user) }
      #expect(try await send(all) == .sent(number: 4, recipients: 3))
      #expect(try await send(all) == .quotaExceeded)
      #expect(try await send([all[0]]) == .sent(number: 5, recipients: 1))
      var known = try await store.storage.notificationAccount(user, now: store.now)
      #expect(known?.credits == 2 && known?.used == 4)
      store.clock.advance(.seconds(86_400))
      known = try await store.storage.notificationAccount(user, now: store.now)
      #expect(known?.used == 0)
      #expect(try await send(all) == .notEnoughCredits)
      #expect(try await send(Array(all.prefix(2))) == .sent(number: 6, recipients: 2))
      known = try await store.storage.notificationAccount(user, now: store.now)
      #expect(known?.credits == 0 && known?.used == 2)
    }
  }

  /// The clock of another process is a second behind, over midnight.
  @Test(arguments: Backend.allCases)
  func `two clocks that differ begin a period once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      var change = NotificationAccountChange()
      change.quota = .set(NotificationQuota(max: 3, period: .day))
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      let words = [Sample.address(try Sample.recipient(1))]
      let midnight = Timestamp(millis: (store.now.day + 1) * Timestamp.millisPerDay)
      func send(_ now: Timestamp) async throws -> Bool {
        let outcome = try await store.storage.send(
          Sample.hello, to: words, of: user, recipientsMax: 10, now: now, due: now)
        if case .sent = outcome { return true }
        #expect(outcome == .quotaExceeded)
        return false
      }
      let (behind, ahead) = (midnight.adding(.milliseconds(-1)), midnight)
      for _ in 0..<3 { #expect(try await send(behind)) }
      #expect(try await !send(behind))
      #expect(try await send(ahead))
      // The one that is behind takes of the new day: neither day is begun anew.
      #expect(try await send(behind))
      #expect(try await send(ahead))
      for now in [behind, ahead] {
        #expect(try await !send(now))
        #expect(try await store.storage.notificationAccount(user, now: now)?.used == 3)
      }
      // A clock that was days ahead is put right.
      let earlier = midnight.adding(.seconds(-3 * 86_400))
      #expect(try await send(earlier))
    }
  }

  @Test(arguments: Backend.allCases)
  func `credits that are enough for some are spent once, however many send`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      var change = NotificationAccountChange()
      change.credits = .set(5)
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      let word = try Sample.recipient(1).text
      let sent = try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<16 {
          group.addTask { if case .sent = try await store.send(to: [word], of: user) { true } else { false } }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(sent == 5)
      let found = try await store.storage.notifications(
        for: try Sample.recipient(1), after: 0, since: nil, limit: 100)
      #expect(found.map(\.number) == [2, 3, 4, 5, 6])
    }
  }

  @Test(arguments: Backend.allCases)
  func `notifications are listed by number and by time, as long as they are kept`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 2)
      let (first, second) = (try Sample.recipient(1), try Sample.recipient(2))
      let one = try await store.sent(to: [first.text], of: user)
      store.clock.advance(.seconds(10))
      let two = try await store.sent(to: [first.text, second.text], of: user)
      func list(_ number: RecipientNumber, after: Int64 = 0, since: Timestamp? = nil, limit: Int = 10) async throws
        -> [Int64]
      {
        try await store.storage.notifications(for: number, after: after, since: since, limit: limit).map(\.number)
      }
      #expect(try await list(first) == [one, two])
      #expect(try await list(first, after: one) == [two])
      #expect(try await list(first, since: store.now) == [two])
      #expect(try await list(first, limit: 1) == [one])
      #expect(try await list(second) == [two])
      for job in try await store.claimed() { try await store.storage.finishPush(job) }
      try await store.storage.forgetNotifications(before: store.now, pushesEndedBy: store.now)
      #expect(try await list(first) == [two])
      #expect(try await store.events(of: user).isEmpty)
      try await store.storage.forgetNotifications(before: store.now.adding(.seconds(1)), pushesEndedBy: store.now)
      #expect(try await list(second).isEmpty)
      #expect(try await store.claimed().isEmpty)
    }
  }
}
