import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct NotificationPushContract {
  @Test(arguments: Backend.allCases)
  func `a push is one process's while its claim holds`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 3)
      let number = try await store.sent(to: try (1...3).map { try Sample.recipient($0).text }, of: user)
      let first = try await store.claimed(limit: 2)
      #expect(first.count == 2 && first.allSatisfy { $0.attempt == 1 && $0.number == number })
      #expect(first.allSatisfy { $0.notification == Sample.hello && $0.expires == store.now.adding(.seconds(3600)) })
      #expect(try await store.claimed(.apns).isEmpty)
      let second = try await store.claimed()
      #expect(second.count == 1 && Set((first + second).map(\.recipient)).count == 3)
      #expect(try await store.claimed().isEmpty)
      try await store.storage.finishPush(first[0])
      let queues = try await store.storage.notificationQueues()
      #expect(queues.first { $0.service == .fcm }?.waiting == 2)
      try await store.storage.putOffPush(first[1], until: store.now.adding(.seconds(5)), isCounted: false)
      #expect(try await store.claimed().isEmpty)
      store.clock.advance(.seconds(5))
      let third = try await store.claimed()
      #expect(third.map(\.id) == [first[1].id] && third.first?.attempt == 1)
      let fourth = [PushSettlement(third[0], .putOff(until: store.now, isCounted: true))]
      try await store.storage.settlePushes(fourth + [PushSettlement(second[0], .finished)])
      let last = try await store.claimed()
      #expect(last.map(\.id) == [first[1].id] && last.first?.attempt == 2)
    }
  }

  /// The store has seen a time that was wrong: what arrives is stored at that, and pushed by the clock as it is.
  @Test(arguments: Backend.allCases)
  func `a push is due by the clock of those who push`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      let now = store.now.adding(.seconds(-7200))
      _ = try await store.send(to: [try Sample.recipient(1).text], of: user, due: now)
      #expect(try await store.storage.claimPushes(of: .fcm, limit: 9, now: now.adding(.milliseconds(-1))).isEmpty)
      let claimed = try await store.storage.claimPushes(of: .fcm, limit: 9, now: now)
      #expect(claimed.count == 1 && claimed[0].expires == now.adding(.seconds(3600)))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a claim runs out, and its former holder changes nothing any more`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      _ = try await store.sent(to: [try Sample.recipient(1).text], of: user)
      let first = try await store.storage.claimPushes(of: .fcm, limit: 9, for: .milliseconds(1), now: store.now)
      try #require(first.count == 1)
      store.clock.advance(.milliseconds(1))
      var second: [NotificationJob] = []
      try await eventually("the claim has run out") {
        second = try await store.claimed()
        return !second.isEmpty
      }
      #expect(second.map(\.id) == first.map(\.id) && second.first?.attempt == 2)
      try await store.storage.putOffPush(first[0], until: store.now, isCounted: true)
      #expect(try await store.claimed().isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a process that leaves hands its pushes over to another one with its key`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount()
      let numbers = try (1...4).map { try Sample.recipient(Int64($0)) }
      for number in numbers {
        let addition = try await store.storage.addRecipient(
          number, Sample.fcm, of: user, subject: Sample.noText, now: store.now)
        #expect(addition == .added)
      }
      // The last one has the key, and is not addressed.
      _ = try await store.sent(to: numbers.prefix(3).map(\.text), of: user)
      try await store.storage.unsubscribe(
        numbers[0], of: user, fromAll: true, subject: Sample.noText, now: store.now)
      let new = RecipientKey(provider: .fcm, text: "new")
      let replacement = try await store.storage.replaceKey(of: numbers[1], by: new, of: user, now: store.now)
      #expect(replacement == .replaced)
      let jobs = try await store.claimed()
      #expect(jobs.map(\.recipient) == [numbers[1], numbers[2]] && jobs.map(\.key) == [new, Sample.fcm])
      let isDead = try await store.storage.keyIsDead(try #require(jobs.last), since: nil, now: store.now)
      #expect(isDead)
      let queues = try await store.storage.notificationQueues()
      #expect(queues.first { $0.service == .fcm }?.waiting == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an account has so many recipients and no more`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 2)
      func add(_ index: Int64, max: Int64) async throws -> RecipientAddition {
        try await store.storage.addRecipient(
          try Sample.recipient(index), Sample.fcm, of: user, subject: Sample.noText, recipientsMax: max,
          now: store.now)
      }
      let before = try await store.events(of: user).count
      let (full, taken, added) = (try await add(3, max: 2), try await add(2, max: 3), try await add(3, max: 3))
      #expect(full == .accountFull && taken == .numberTaken && added == .added)
      #expect(try await store.events(of: user).count == before + 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a notification is kept as long as it has pushes`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      _ = try await store.sent(to: [try Sample.recipient(1).text], of: user)
      let later = store.now.adding(.seconds(1))
      try await store.storage.forgetNotifications(before: later, pushesEndedBy: store.now)
      let job = try #require(try await store.claimed().first)
      try await store.storage.finishPush(job)
      try await store.storage.forgetNotifications(before: later, pushesEndedBy: store.now)
      let kept = try await store.storage.notifications(
        for: try Sample.recipient(1), after: 0, since: nil, limit: 9)
      #expect(kept.isEmpty)
    }
  }

  @Test(arguments: Backend.allCases) func `if many claim at once, each push is one's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 60)
      _ = try await store.sent(to: try (1...60).map { try Sample.recipient($0).text }, of: user)
      let claimed = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for _ in 0..<8 {
          group.addTask {
            var ids: [Int64] = []
            while true {
              let jobs = try await store.claimed(limit: 5)
              if jobs.isEmpty { return ids }
              ids += jobs.map(\.id)
            }
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(claimed.count == 60 && Set(claimed).count == 60)
    }
  }

  @Test(arguments: Backend.allCases) func `a key that several have is pushed to once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount()
      let keys = [Sample.fcm, Sample.fcm, RecipientKey(provider: .gcm, text: Sample.fcm.text), Sample.apns]
      for (index, key) in keys.enumerated() {
        let addition = try await store.storage.addRecipient(
          try Sample.recipient(Int64(index + 1)), key, of: user, subject: Sample.noText, now: store.now)
        #expect(addition == .added)
      }
      let outcome = try await store.send(to: try (1...4).map { try Sample.recipient($0).text }, of: user)
      #expect(outcome == .sent(number: 5, recipients: 4))
      #expect(try await store.claimed().map(\.recipient) == [try Sample.recipient(1)])
      #expect(try await store.claimed(.apns).map(\.recipient) == [try Sample.recipient(4)])
      let listed = try await store.storage.notifications(for: try Sample.recipient(3), after: 0, since: nil, limit: 9)
      #expect(listed.map(\.number) == [5])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a dead key costs its recipient, once, and no other key's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      let number = try Sample.recipient(1)
      _ = try await store.sent(to: [number.text], of: user)
      _ = try await store.sent(to: [number.text], of: user)
      let jobs = try await store.claimed()
      try #require(jobs.count == 2)
      let before = try await store.events(of: user).count
      // Registered after the provider saw it die.
      let isLater = try await store.storage.keyIsDead(
        jobs[1], since: store.now.adding(.seconds(-1)), now: store.now)
      #expect(!isLater)
      let isDead = try await store.storage.keyIsDead(jobs[0], since: store.now, now: store.now)
      let isDeadAgain = try await store.storage.keyIsDead(jobs[0], since: nil, now: store.now)
      #expect(isDead && !isDeadAgain)
      let events = try await store.events(of: user)
      #expect(events.count == before + 1)
      #expect(events.last?.isOurs == true && events.last?.action == .unsubscribedAll)
      #expect(events.last?.subject == NotificationText("unsub 2000001"))
      #expect(try await store.storage.recipient(number, of: user)?.isActive == false)
      #expect(try await store.send(to: [number.text], of: user) == .noRecipients)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a push goes where the key now leads, and a former key's death changes nothing`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      let number = try Sample.recipient(1)
      _ = try await store.sent(to: [number.text], of: user)
      let job = try #require(try await store.claimed().first)
      let replacement = try await store.storage.replaceKey(of: number, by: Sample.apns, of: user, now: store.now)
      #expect(replacement == .replaced)
      let isDead = try await store.storage.keyIsDead(job, since: nil, now: store.now)
      #expect(!isDead)
      #expect(try await store.storage.recipient(number, of: user)?.isActive == true)
      try await store.storage.putOffPush(job, until: store.now, isCounted: true)
      #expect(try await store.claimed().isEmpty)
      let again = try #require(try await store.claimed(.apns).first)
      #expect(again.id == job.id && again.key == Sample.apns && again.attempt == 2)
      // Nothing goes to an inactive one.
      try await store.storage.unsubscribe(number, of: user, fromAll: true, subject: Sample.noText, now: store.now)
      store.clock.advance(NotificationLimits.claim)
      #expect(try await store.claimed(.apns).isEmpty)
      #expect(try await store.storage.notificationQueues().allSatisfy { $0.waiting == 0 && $0.oldest == nil })
    }
  }

  @Test(arguments: Backend.allCases)
  func `events are sent one after the other, and put off together`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      func turns() async throws -> [EventTurn] {
        try await store.storage.eventTurns(limit: 10, without: [], now: store.now)
      }
      #expect(try await turns().isEmpty)
      let target = EventTarget(url: "http://127.0.0.1:1/", method: .post)
      var change = NotificationAccountChange()
      change.eventTarget = .set(target)
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      // Events that were there before are not sent.
      #expect(try await turns().isEmpty)
      for _ in 0..<2 {
        try await store.storage.unsubscribe(
          try Sample.recipient(1), of: user, fromAll: false, subject: Sample.noText, now: store.now)
      }
      #expect(try await turns() == [EventTurn(account: user, target: target, pushed: 1, attempts: 0)])
      try await store.storage.putOffEvents(
        of: user, after: 1, attempts: 3, until: store.now.adding(.seconds(5)))
      #expect(try await turns().isEmpty)
      store.clock.advance(.seconds(5))
      #expect(try await turns() == [EventTurn(account: user, target: target, pushed: 1, attempts: 3)])
      let others = try await store.storage.eventTurns(limit: 10, without: [user], now: store.now)
      #expect(others.isEmpty)
      try await store.storage.eventWasPushed(2, of: user, now: store.now)
      try await store.storage.putOffEvents(of: user, after: 1, attempts: 9, until: store.now.adding(.seconds(5)))
      #expect(try await turns() == [EventTurn(account: user, target: target, pushed: 2, attempts: 0)])
      try await store.storage.eventWasPushed(3, of: user, now: store.now)
      try await store.storage.eventWasPushed(2, of: user, now: store.now)
      #expect(try await turns().isEmpty)
    }
  }
}
