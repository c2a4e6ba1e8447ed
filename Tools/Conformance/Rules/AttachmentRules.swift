/// Attachments and their blobs (reference 1.10).
enum AttachmentRules {
  static let all: [Rule] = [
    Rule("1.10", "a new attachment has an id as a number, the same as text, and a location") { session in
      let device = try await session.register()
      for path in ["/v1/attachments/", "/v1/attachments"] {
        let json = try await session.get(path, as: device).expectJSON()
        guard let id = json["id"]?.integer, id > 0 else {
          throw RuleFailure(expected: "id, a positive JSON number of 63 bits", got: "something else")
        }
        try expect(json["idString"] == .string(String(id)), "idString, the same digits", "something else")
        let location = json["location"]?.string ?? ""
        try expect(location.hasPrefix("http://") || location.hasPrefix("https://"), "location, a URL", "something else")
      }
    },
    Rule("1.10", "ids are random: two neighbours are far apart") { session in
      let device = try await session.register()
      let (one, two) = (try await slot(session, device), try await slot(session, device))
      try expect(abs(one.id - two.id) > 1 << 32, "ids more than 2^32 apart", "close ones")
    },
    Rule("1.10", "a blob is uploaded and downloaded without credentials, each exactly 200") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let blob = randomBytes(4097)
      let slot = try await slot(session, sender)
      try await put(blob, to: slot.location, session).expect(200)
      let location = try await location(of: slot.id, session, device)
      for type in ["application/octet-stream", nil] {
        let answer = try await get(location, session, type: type).expect(200)
        try answer.expect(answer.body == blob, "the bytes that were uploaded", "\(answer.body.count) other bytes")
      }
    },
    Rule("1.10", "a blob of 1 MiB comes back as it went") { session in
      let device = try await session.register()
      let blob = randomBytes(1 << 20)
      let slot = try await slot(session, device)
      try await put(blob, to: slot.location, session).expect(200)
      let answer = try await get(try await location(of: slot.id, session, device), session).expect(200)
      try answer.expect(answer.body == blob, "the bytes that were uploaded", "\(answer.body.count) other bytes")
    },
    Rule("1.10", "an attachment is uploaded once: a second time it is refused with 409", .ours) { session in
      let device = try await session.register()
      let blob = randomBytes(100)
      let slot = try await slot(session, device)
      try await put(blob, to: slot.location, session).expect(200)
      guard !isObjectStore(slot.location) else { throw RuleSkipped(reason: "an object store takes the uploads") }
      try await put(randomBytes(100), to: slot.location, session).expect(409)
      let answer = try await get(try await location(of: slot.id, session, device), session).expect(200)
      try answer.expect(answer.body == blob, "the first upload", "something else")
    },
    Rule("1.10", "an unknown id has a location, at which nothing is found") { session in
      let device = try await session.register()
      let unknown = Int64.random(in: 1 << 40 ... .max)
      try await get(try await location(of: unknown, session, device), session).expect(404)
    },
    Rule("1.10", "what was not uploaded yet is not found") { session in
      let device = try await session.register()
      let slot = try await slot(session, device)
      try await get(try await location(of: slot.id, session, device), session).expect(404)
    },
    Rule("1.10", "a location is for its method alone, and none that was altered is taken") { session in
      let device = try await session.register()
      let (slot, other) = (try await slot(session, device), try await slot(session, device))
      let download = try await location(of: slot.id, session, device)
      try await put([1, 2, 3], to: download, session).expectRefusal()
      let swapped = slot.location.replacing(String(slot.id), with: String(other.id))
      if swapped != slot.location { try await put([1, 2, 3], to: swapped, session).expectRefusal() }
      let bare = String(slot.location.prefix { $0 != "?" })
      if bare != slot.location { try await put([1, 2, 3], to: bare, session).expectRefusal() }
      try await get(download, session).expect(404)
    },
    Rule("1.10", "an id that is no number, and an unknown relay, are not found; an empty relay is none") { session in
      let device = try await session.register()
      for path in ["x", "1x", "-", "1?relay=no-such-relay", "1?relay=NOT%20A%20NAME"] {
        try await session.get("/v1/attachments/\(path)", as: device).expect(404)
      }
      try await session.get("/v1/attachments/1?relay=", as: device).expect(200)
    },
    Rule("1.13", "a relay says where its attachments are") { session in
      guard !session.relays.isEmpty else { throw RuleSkipped(reason: "needs --relay") }
      let device = try await session.register()
      for relay in session.relays {
        let json = try await session.get("/v1/attachments/1?relay=\(relay)", as: device).expectJSON()
        try expect(json["location"]?.string?.hasPrefix("http") == true, "location, a URL", "something else")
      }
    },
  ]

  private static func slot(_ session: Session, _ device: Device) async throws -> (id: Int64, location: String) {
    let json = try await session.get("/v1/attachments/", as: device).expectJSON()
    guard let id = json["id"]?.integer, let location = json["location"]?.string else {
      throw RuleFailure(expected: "id and location", got: "something else", request: "GET /v1/attachments/")
    }
    return (id, location)
  }

  /// The URL at which the blob of `id` is downloaded.
  private static func location(of id: Int64, _ session: Session, _ device: Device) async throws -> String {
    let json = try await session.get("/v1/attachments/\(id)", as: device).expectJSON()
    guard let location = json["location"]?.string else {
      throw RuleFailure(expected: "location", got: "something else", request: "GET /v1/attachments/{n}")
    }
    return location
  }

  private static func put(_ blob: [UInt8], to location: String, _ session: Session) async throws -> Answer {
    var exchange = Exchange("PUT", location)
    exchange.headers = [("Content-Type", "application/octet-stream")]
    exchange.body = .whole(blob)
    return try await session.send(exchange)
  }

  /// Old clients send a type with the download as well (reference Part 4).
  private static func get(
    _ location: String, _ session: Session, type: String? = "application/octet-stream"
  ) async throws -> Answer {
    var exchange = Exchange("GET", location)
    if let type { exchange.headers = [("Content-Type", type)] }
    return try await session.send(exchange)
  }

  /// A presigned URL: the store behind it knows nothing of single uploads.
  private static func isObjectStore(_ location: String) -> Bool { location.contains("X-Amz-Signature") }
}
