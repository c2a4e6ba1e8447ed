/// This project's additions to contact look-ups: an account that does not want to be found is not, and clients can
/// ask for changes (docs/protocol.md, "Directory").
enum DirectoryChangesRules {
  static let all: [Rule] = [
    Rule("1.11", "an account that does not want to be found is in no look-up, gets messages, and can come back", .ours)
    {
      session in
      let caller = try await session.register()
      let device = try await session.register(extra: ["discoverableByPhoneNumber": false])
      let path = "/v1/directory/\(Token.urlSafe(try Token.of(device.number)))"
      try await session.get(path, as: caller).expect(404)
      try await session.submit([message()], to: device.number, as: caller).expect(200)
      for (wish, status): (JSON, Int) in [(true, 200), (nil, 200), ("false", 404), (nil, 404)] {
        let body = attributes().with(["discoverableByPhoneNumber": wish])
        try await session.put("/v1/accounts/attributes/", body, as: device).expectDone()
        try await session.settling { try await session.get(path, as: caller).expect(status) }
      }
      // A new installation that does not say it leaves it.
      _ = try await session.register(device.number)
      try await session.get(path, as: caller).expect(404)
    },
    Rule("1.11", "changes without a cursor, or with one that is none, are all that is known", .ours) { session in
      let (caller, device) = (try await session.register(), try await session.register())
      let tokens = [try Token.of(device.number), try Token.of(session.numbers.draw())]
      for cursor: JSON in [nil, "", "0-0", "none", "99999999999999999999-1"] {
        try await session.settling {
          let json = try await changes(tokens, since: cursor, session, caller)
          try expectEqual(json["contacts"], [["token": .string(tokens[0])]], "contacts")
          try expectEqual(json["removed"], [], "removed")
          try expectEqual(json["complete"], true, "complete")
        }
      }
    },
    Rule("1.11", "changes since a cursor are the contacts that came and went, and no others that never did", .ours) {
      session in
      let (caller, known) = (try await session.register(), try await session.register())
      let coming = session.numbers.draw()
      let tokens = [try Token.of(coming), try Token.of(known.number), try Token.of(session.numbers.draw())]
      var cursor: JSON = nil
      try await session.settling {
        let json = try await changes(tokens, since: nil, session, caller)
        try expectEqual(json["contacts"], [["token": .string(tokens[1])]], "contacts")
        cursor = json["cursor"] ?? nil
      }
      try expect(cursor.string?.isEmpty == false, "a cursor", shown(cursor))
      let device = try await session.register(coming)
      try await session.settling {
        let json = try await changes(tokens, since: cursor, session, caller)
        try expectEqual(json["complete"], false, "complete")
        // An unchanged contact may be told again, first or last.
        let contacts = json["contacts"]?.array ?? []
        try expect(contacts.contains(["token": .string(tokens[0])]), "the contact that came", shown(.array(contacts)))
        try expect(contacts.count <= 2, "at most two contacts", "\(contacts.count)")
        try expectEqual(json["removed"], [], "removed")
      }
      try await session.delete("/v1/accounts/wsc/", as: device).expect(200)
      try await session.settling {
        let json = try await changes(tokens, since: cursor, session, caller)
        try expectEqual(json["removed"], [.string(tokens[0])], "removed")
        try expectEqual(json["complete"], false, "complete")
      }
    },
    Rule("1.11", "a request for changes is refused as a look-up is", .ours) { session in
      let caller = try await session.register()
      _ = try await changes([], since: nil, session, caller)
      let bodies: [(JSON, Int)] = [
        ([:], 415), (["contacts": [7]], 415), (["contacts": [], "cursor": [:]], 415), (["contacts": ["x"]], 400),
      ]
      for (body, status) in bodies {
        try await session.put("/v1/directory/changes", body, as: caller).expect(status)
      }
      try await session.put("/v1/directory/changes", ["contacts": []]).expect(401)
    },
  ]

  private static func changes(
    _ tokens: [String], since cursor: JSON, _ session: Session, _ caller: Device
  ) async throws -> JSON {
    let body: JSON = ["contacts": .array(tokens.map { .string($0) }), "cursor": cursor]
    let answer = try await session.put("/v1/directory/changes", body, as: caller)
    // An older server knows PUT for only one of the look-ups' paths.
    guard answer.status != 404, answer.status != 405 else {
      throw RuleSkipped(reason: "the server does not tell changes")
    }
    let json = try answer.expectJSON()
    try expectEqual(json.keys, ["contacts", "removed", "cursor", "complete"], "properties")
    return json
  }
}
