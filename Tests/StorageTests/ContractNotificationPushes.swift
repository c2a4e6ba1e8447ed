import RelayCore
import Storage
import Testing

@Suite struct NotificationPushContract {
  @Test("A push is one process's for a minute, and then another's", arguments: Backend.allCases)
  func claims(_ backend: Backend) async throws {
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
      store.clock.advance(NotificationLimits.claim)
      let again = try await store.claimed()
      #expect(again.count == 2 && again.allSatisfy { $0.attempt == 2 })
      // Whoever lost it changes nothing any more.
      try await store.storage.putOffPush(first[1], until: store.now, isCounted: true)
      #expect(try await store.claimed().isEmpty)
      try await store.storage.putOffPush(again[0], until: store.now.adding(.seconds(5)), isCounted: false)
      #expect(try await store.claimed().isEmpty)
      store.clock.advance(.seconds(5))
      let third = try await store.claimed()
      #expect(third.map(\.id) == [again[0].id] && third.first?.attempt == 2)
    }
  }

  @Test("Of many that claim at once each push is one's", arguments: Backend.allCases)
  func atOnce(_ backend: Backend) async throws {
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

  @Test("A key that several have is pushed to once", arguments: Backend.allCases)
  func sameKey(_ backend: Backend) async throws {
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

  @Test("A dead key costs its recipient, once, and no other key's", arguments: Backend.allCases)
  func deadKey(_ backend: Backend) async throws {
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

  @Test("A push goes where the key now leads, and a former key's death changes nothing", arguments: Backend.allCases)
  func replacedKey(_ backend: Backend) async throws {
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

  @Test("Events are sent one after the other, and put off together", arguments: Backend.allCases)
  func eventTurns(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let user = try await store.addAccount(recipients: 1)
      func turns() async throws -> [EventTurn] { try await store.storage.eventTurns(limit: 10, now: store.now) }
      #expect(try await turns().isEmpty)
      let target = EventTarget(url: "http://127.0.0.1:1/", method: .post)
      var change = NotificationAccountChange()
      change.eventTarget = .set(target)
      #expect(try await store.storage.changeNotificationAccount(user, change, now: store.now))
      // What was there before is not sent.
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
      try await store.storage.eventWasPushed(2, of: user)
      try await store.storage.putOffEvents(of: user, after: 1, attempts: 9, until: store.now.adding(.seconds(5)))
      #expect(try await turns() == [EventTurn(account: user, target: target, pushed: 2, attempts: 0)])
      try await store.storage.eventWasPushed(3, of: user)
      try await store.storage.eventWasPushed(2, of: user)
      #expect(try await turns().isEmpty)
    }
  }
}
