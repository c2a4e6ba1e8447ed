import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// Each client's part in a conversation, request by request, on one operator and across two (docs/clients.md has the
/// table).
@Suite(.tags(.processes)) struct PlayTests {
  private typealias Copy = RealClient.Copy

  @Test(arguments: RealClient.allCases, Stage.Kind.allCases)
  func `messages, answers, a group and receipts`(client: RealClient, kind: Stage.Kind) async throws {
    try await Stage.with(kind) { stage in
      let cast = try await Cast(client, on: stage)
      let (ann, bob) = (cast.ann, cast.bob)

      // A new session: contacts, keys, a first message of type 3, its receipt.
      try await cast.expectKeys(of: bob, drawnBy: ann)
      try await cast.send("hello", type: 3, from: ann, to: bob, at: 1001)
      try await cast.send("and you", type: 1, from: bob, to: ann, at: 1002)

      // A group of three: each of what is said goes to the two others. The far one draws keys of the third for it.
      let cid = try await Person.register(client, at: stage.near, registrationID: 33)
      let third = try await Inbox(of: cid)
      try await cast.expectFound(cid, by: bob, at: stage.nearName)
      try await cast.expectKeys(of: cid, drawnBy: bob)
      for (person, inbox) in [(bob, cast.bobs), (cid, third)] {
        try await cast.send("to all", type: 3, from: ann, to: person, in: inbox, at: 1003)
      }
      for (person, inbox) in [(ann, cast.anns), (cid, third)] {
        try await cast.send("from the far one", type: 1, from: bob, to: person, in: inbox, at: 1004)
      }

      // By itself, after the message was acknowledged; of nothing else is anybody told.
      let path = { (time: Int64) in "/v1/receipt/\(ann.number)/\(time)" + bob.query(stage.nearName) }
      #expect([200, 204].contains(try await bob.ask("PUT", path(1001)).status))
      #expect(try await bob.ask("PUT", path(999)).status == 404)

      // No account has this number, here or there.
      let nobody = TestDevice.freshNumber()
      #expect(try await ann.ask("GET", client.drawPath(nobody)).status == 404)
      let lost = client.bundle([Copy(device: 1, registrationID: 1, type: 3, text: "x")], to: nobody, at: 1, relay: nil)
      #expect(try await ann.ask("PUT", "/v1/messages/\(nobody)", lost).status == 404)
      await third.close()
      await cast.close()
    }
  }

  @Test(arguments: RealClient.allCases, Stage.Kind.allCases)
  func `a new installation, and a second device`(client: RealClient, kind: Stage.Kind) async throws {
    try await Stage.with(kind) { stage in
      let cast = try await Cast(client, on: stage)
      let ann = cast.ann
      try await cast.send("before", type: 3, from: ann, to: cast.bob, at: 2001)

      // The far one starts anew: the relay says whose session is stale, in the client's own words.
      await cast.bobs.close()
      let anew = try await Person.register(client, at: stage.far, cast.bob.number, registrationID: 222)
      let stale = try await cast.submit(
        [Copy(device: 1, registrationID: cast.bob.registrationID, type: 1, text: "x")], from: ann, to: anew, at: 2002)
      #expect(stale.status == 410 && stale.text == #"{"staleDevices":[1]}"#, "\(stale.status) \(stale.text)")
      let inbox = try await Inbox(of: anew)
      try await cast.expectKeys(of: anew, drawnBy: ann)
      try await cast.send("a new session", type: 3, from: ann, to: anew, in: inbox, at: 2003)

      // It links a second device, of which the sender learns by the next refusal.
      let second = try await anew.link(registrationID: 2222)
      let one = Copy(device: 1, registrationID: 222, type: 1, text: "to both")
      let missing = try await cast.submit([one], from: ann, to: anew, at: 2004)
      #expect(missing.status == 409, "\(missing.status)")
      #expect(missing.object["missingDevices"] as? [Int] == [second.device])
      #expect(missing.object["extraDevices"] as? [Int] == [])
      let drawn = try await ann.ask("GET", "/v2/keys/\(anew.number)/\(second.device)" + ann.query(stage.farName))
      #expect(drawn.list("devices").compactMap { $0["registrationId"] as? Int } == [2222])
      let other = try await Inbox(of: second)
      let two = Copy(device: second.device, registrationID: 2222, type: 3, text: "to both")
      #expect(try await cast.submit([one, two], from: ann, to: anew, at: 2004).status == 200)
      for box in [inbox, other] {
        #expect(
          try await box.expect(type(in: box, ofFirst: inbox), at: 2004, from: ann, relay: stage.nearName) == "to both")
      }
      // The relay tells the sender that he has another device himself.
      let answer = Copy(device: 1, registrationID: ann.registrationID, type: 1, text: "from the second")
      let accepted = try await cast.submit([answer], from: second, to: ann, at: 2005)
      #expect(accepted.status == 200 && accepted.text == #"{"needsSync":true}"#, "\(accepted.text)")
      #expect(try await cast.anns.expect(1, at: 2005, from: second, relay: stage.farName) == "from the second")
      for box in [inbox, other] { await box.close() }
      await cast.close()
    }
  }

  /// The first device has a session by then, the other one a new one.
  private func type(in box: Inbox, ofFirst first: Inbox) -> Int { box === first ? 1 : 3 }

  /// With the limits that a relay has by itself: nobody who goes at a person's pace meets them.
  @Test(arguments: RealClient.allCases, Stage.Kind.allCases)
  func `messages for somebody who is away come in order, and a new installation goes on`(
    client: RealClient, kind: Stage.Kind
  ) async throws {
    try await Stage.with(kind, settings: Stage.usualLimits) { stage in
      let cast = try await Cast(client, on: stage)
      let (ann, bob) = (cast.ann, cast.bob)
      await cast.bobs.close()
      try await cast.expectKeys(of: bob, drawnBy: ann)
      let times = Array(Int64(3001)...3020)
      for time in times {
        let copy = Copy(device: 1, registrationID: bob.registrationID, type: time == 3001 ? 3 : 1, text: "\(time)")
        #expect(try await cast.submit([copy], from: ann, to: bob, at: time).status == 200)
      }
      let back = try await Inbox(of: bob)
      #expect(try await back.times(of: times.count, from: ann) == times)
      await back.close()

      let anew = try await Person.register(client, at: stage.far, bob.number, registrationID: 223)
      let inbox = try await Inbox(of: anew)
      let stale = try await cast.submit(
        [Copy(device: 1, registrationID: bob.registrationID, type: 1, text: "x")], from: ann, to: anew, at: 3100)
      #expect(stale.status == 410, "\(stale.status)")
      try await cast.expectKeys(of: anew, drawnBy: ann)
      try await cast.send("a new session", type: 3, from: ann, to: anew, in: inbox, at: 3101)
      await inbox.close()
      await cast.close()
    }
  }

  @Test(arguments: RealClient.allCases, Stage.Kind.allCases)
  func `attachments, there and back`(client: RealClient, kind: Stage.Kind) async throws {
    try await Stage.with(kind) { stage in
      let cast = try await Cast(client, on: stage)
      for (sender, reader, relay) in [(cast.ann, cast.bob, stage.nearName), (cast.bob, cast.ann, stage.farName)] {
        let slot = try await sender.ask("GET", "/v1/attachments/")
        // The number has up to 63 bits: it is read as one here, as by every client but those that read `idString`.
        let id = try #require((slot.object["id"] as? NSNumber)?.int64Value)
        #expect(slot.object["idString"] as? String == String(id))
        let location = try #require(slot.object["location"] as? String)
        let upload = try await stage.exchange(
          "PUT", location, "encrypted by \(sender.number)", headers: client.uploadHeaders)
        #expect(upload.status == 200)
        // A client that wants its connection closed is told so, and does not write its next request there.
        #expect((upload.headers["connection"] == "close") == !client.uploadHeaders.isEmpty)
        // A relay hears of its peer's mark within seconds of their first word.
        try await eventually("\(reader.number) has the blob", within: .seconds(40), every: .milliseconds(100)) {
          let found = try await reader.ask("GET", "/v1/attachments/\(id)" + reader.query(relay))
          let blob = try await stage.exchange("GET", try #require(found.object["location"] as? String))
          return blob.status == 200 && blob.text == "encrypted by \(sender.number)"
        }
      }
      await cast.close()
    }
  }
}

/// The answer to a submission, over HTTP or over a socket.
private struct Reply {
  let status: Int
  let body: [UInt8]

  var text: String { String(decoding: body, as: UTF8.self) }
  /// Empty for what is no JSON object: tests compare what is in it.
  var object: [String: Any] { (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:] }
}

/// The two who write to each other, connected.
private struct Cast {
  let stage: Stage
  let client: RealClient
  let ann: Person
  let bob: Person
  let anns: Inbox
  let bobs: Inbox

  init(_ client: RealClient, on stage: Stage) async throws {
    self.stage = stage
    self.client = client
    ann = try await Person.register(client, at: stage.near, registrationID: 11)
    bob = try await Person.register(client, at: stage.far, registrationID: 22)
    anns = try await Inbox(of: ann)
    bobs = try await Inbox(of: bob)
    try await expectFound(bob, by: ann, at: stage.farName)
    try await expectFound(ann, by: bob, at: stage.nearName)
  }

  func close() async {
    await anns.close()
    await bobs.close()
  }

  /// The contact list's look-up, as the clients make it.
  func expectFound(_ person: Person, by asker: Person, at relay: String?) async throws {
    let token = ContactTokens.token(for: try #require(PhoneNumber(person.number)))
    // If both are at one relay there is none to name.
    let relay = person.relay === asker.relay ? nil : relay
    try await eventually("the contact is found", within: .seconds(40), every: .milliseconds(50)) {
      let found = try await asker.ask("PUT", "/v1/directory/tokens", #"{"contacts": ["\#(token)"]}"#)
      guard let contact = found.list("contacts").first else { return false }
      #expect(contact["token"] as? String == token && contact["relay"] as? String == relay)
      return true
    }
  }

  /// A new session begins with them: nothing that the clients read is null.
  func expectKeys(of person: Person, drawnBy asker: Person) async throws {
    let drawn = try await asker.ask("GET", client.drawPath(person.number) + asker.query(name(of: person, for: asker)))
    #expect(drawn.status == 200 && !drawn.text.contains("null"), "\(drawn.status) \(drawn.text.prefix(200))")
    #expect(drawn.object["identityKey"] as? String == person.identity.publicKey)
    let device = try #require(drawn.list("devices").first)
    #expect(device["deviceId"] as? Int == 1 && device["registrationId"] as? Int == person.registrationID)
    #expect(device["preKey"] != nil && device["signedPreKey"] != nil)
  }

  /// One message to device 1: accepted, delivered, receipted.
  func send(
    _ text: String, type: Int, from sender: Person, to person: Person, in inbox: Inbox? = nil, at time: Int64
  ) async throws {
    let copy = RealClient.Copy(device: 1, registrationID: person.registrationID, type: type, text: text)
    let answer = try await submit([copy], from: sender, to: person, at: time)
    #expect(answer.status == 200 && answer.text == #"{"needsSync":false}"#, "\(answer.status) \(answer.text)")
    let arrived = try await (inbox ?? self.inbox(of: person)).expect(
      type, at: time, from: sender, relay: name(of: sender, for: person))
    #expect(arrived == text)
    try await self.inbox(of: sender).expect(5, at: time, from: person, relay: name(of: person, for: sender))
  }

  private func inbox(of person: Person) -> Inbox { person.number == ann.number ? anns : bobs }

  func submit(
    _ copies: [RealClient.Copy], from sender: Person, to person: Person, at time: Int64
  ) async throws -> Reply {
    let bundle = client.bundle(copies, to: person.number, at: time, relay: name(of: person, for: sender))
    let path = "/v1/messages/\(person.number)"
    guard client.sendsOverSocket, sender.device == 1 else {
      let answer = try await sender.ask("PUT", path, bundle)
      return Reply(status: answer.status, body: answer.body)
    }
    let answer = try await inbox(of: sender).session.request("PUT", path, body: Array(bundle.utf8))
    return Reply(status: answer.status, body: answer.body)
  }

  /// By which name the relay of `other` knows that of `person`; nil where they are one.
  private func name(of person: Person, for other: Person) -> String? {
    guard person.relay !== other.relay else { return nil }
    return person.relay === stage.near ? stage.nearName : stage.farName
  }
}
