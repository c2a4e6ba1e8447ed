import TestSupport
import TestTags
import Testing

/// Two processes over one PostgreSQL and one Redis behave as one relay.
@Suite(.tags(.processes)) struct OneRelayTests {
  @Test(arguments: Cluster.Servers.allCases)
  func `a change at one process takes effect at the other`(on servers: Cluster.Servers) async throws {
    try await Cluster.with(on: servers) { cluster in
      try await cluster.serve(2) { relays in
        let (one, two) = (relays[0], relays[1])
        // A code asked for here is confirmed there.
        let number = TestDevice.freshNumber()
        let code = try await one.code(for: number)
        let recipient = TestDevice(number: number, password: "p", registrationID: 5)
        let body = #"{"signalingKey":"c2ln","registrationId":5,"fetchesMessages":true}"#
        #expect(try await two.send("PUT", "/v1/accounts/code/\(code)", json: body, as: recipient).status == 200)
        #expect(try await one.send("PUT", "/v1/accounts/code/\(code)", json: body, as: recipient).status == 403)

        let sender = try await one.register()
        try await one.upload([1, 2], as: recipient)
        #expect(try await two.send("GET", "/v1/keys", as: recipient).text == #"{"count":2}"#)
        let drawn = try await two.send("GET", "/v1/keys/\(number)/*", as: sender).list("keys")
        #expect(drawn.compactMap { $0["keyId"] as? Int } == [1])
        #expect(drawn.compactMap { $0["registrationId"] as? Int } == [5])

        let json = bundle(message(registrationID: 5), timestamp: 77)
        #expect(try await one.send("PUT", "/v1/messages/\(number)", json: json, as: sender).status == 200)
        #expect(try await two.send("PUT", "/v1/messages/\(number)", json: json, as: sender).status == 200)
        let mail = try await two.mailbox(of: recipient)
        #expect(mail.count == 1, "repeated at the other process, stored once")
        let path = "/v1/messages/\(sender.number)/77"
        #expect(try await two.send("DELETE", path, as: recipient).status == 200)
        #expect(try await one.mailbox(of: recipient).isEmpty)
        #expect(try await one.mailbox(of: sender).compactMap { $0["type"] as? Int } == [5])
      }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `limits are shared`(on servers: Cluster.Servers) async throws {
    try await Cluster.with(
      on: servers, settings: ["RELAY_LIMITS_MESSAGES_SIZE": "10", "RELAY_LIMITS_MESSAGES_PER_MINUTE": "0.1"]
    ) {
      cluster in
      try await cluster.serve(2) { relays in
        let (sender, recipient) = (try await relays[0].register(), try await relays[1].register())
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
          for time in 1...20 {
            group.addTask {
              let json = bundle(message(), timestamp: Int64(time))
              let path = "/v1/messages/\(recipient.number)"
              return try await relays[time % 2].send("PUT", path, json: json, as: sender).status
            }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.count { $0 == 200 } == 10)
        #expect(statuses.count { $0 == 413 } == 10)
        #expect(try await relays[0].mailbox(of: recipient).count == 10)
      }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `a re-registration is seen by the other process long before its cache ages`(on servers: Cluster.Servers)
    async throws
  {
    try await Cluster.with(on: servers) { cluster in
      try await cluster.serve(2) { relays in
        let (one, two) = (relays[0], relays[1])
        let sender = try await two.register()
        for _ in 0..<5 {
          let former = try await one.register(registrationID: 1)
          // The other process knows the account well by now.
          #expect(try await two.send("GET", "/v1/keys", as: former).status == 200)
          let json = bundle(message(registrationID: 1))
          #expect(try await two.send("PUT", "/v1/messages/\(former.number)", json: json, as: sender).status == 200)
          let present = try await one.register(former.number, registrationID: 2)
          try await eventually("the old password is refused", within: .seconds(10)) {
            try await two.send("GET", "/v1/keys", as: former).status == 401
          }
          #expect(try await two.send("GET", "/v1/keys", as: present).status == 200)
          let stale = try await two.send("PUT", "/v1/messages/\(former.number)", json: json, as: sender)
          #expect(stale.status == 410 && stale.text == #"{"staleDevices":[1]}"#)
        }
      }
    }
  }

  @Test(arguments: Cluster.Servers.allCases)
  func `64 callers drawing 1000 prekeys through two processes get no key twice`(on servers: Cluster.Servers)
    async throws
  {
    try await Cluster.with(on: servers) { cluster in
      try await cluster.serve(2) { relays in
        let owner = try await relays[0].register()
        try await relays[0].upload(Array(1...1000), as: owner)
        let callers = try await withThrowingTaskGroup(of: TestDevice.self) { group in
          for index in 0..<64 { group.addTask { try await relays[index % 2].register() } }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        let drawn = Ledger<Int>()
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (index, caller) in callers.enumerated() {
            group.addTask {
              for count in 0... {
                let answer = try await relays[(index + count) % 2].send(
                  "GET", "/v1/keys/\(owner.number)/1", as: caller)
                #expect(answer.status == 200, "\(answer.text)")
                guard let id = answer.list("keys").first?["keyId"] as? Int, id <= 1000 else { return }
                drawn.add(id)
              }
            }
          }
          try await group.waitForAll()
        }
        #expect(drawn.all.sorted() == Array(1...1000))
        #expect(try await relays[1].send("GET", "/v1/keys", as: owner).text == #"{"count":0}"#)
      }
    }
  }
}
