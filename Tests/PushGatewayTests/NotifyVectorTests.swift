import OrderedCollections
import PushGateway
import RelayCore
import TestSupport
import TestTags
import Testing

/// The recorded exchanges: the post, the providers' answers, the requests that they see, and the answer to the
/// homeserver.
///
/// A vector's recommendation goes before the reference's newer dialect, and that before the older one.
@Suite(.tags(.unit)) struct NotifyVectorTests {
  @Test(arguments: ["apns", "fcm", "legacy", "web", "mix"])
  func `every recorded exchange is repeated`(group: String) async throws {
    try await PushSite.with { site in
      let vectors = try site.vectors.list("notify").filter { $0.id.hasPrefix(group + "-") }
      #expect(!vectors.isEmpty)
      for vector in vectors {
        let exchange = try RecordedExchange(vector, site)
        exchange.script()
        let time = RecordedTime()
        try await site.gateway(time.time) { gateway in
          exchange.check(try await gateway.post(try #require(vector["request"])), waits: time.waits)
        }
      }
    }
  }

  @Test func `faulty bodies are answered as recorded`() async throws {
    try await PushSite.with { site in
      let vectors = try site.vectors.list("http")
      try await site.gateway { gateway in
        for vector in vectors {
          let body = try vector["body"]?.text.map { Array($0.utf8) } ?? Self.bytes(hex: try vector.text("body_hex"))
          let reply = try await gateway.post(body)
          let expected = try vector["recommended"]?.object ?? vector.object("expect")
          #expect(reply.status == (try expected.integer("status")), "\(vector.id)")
          if reply.status == 400 { #expect(reply.errorCode != nil, "\(vector.id)") }
          if let body = expected["body"] { #expect(try JSONValue(reply.text).says(body), "\(vector.id)") }
        }
      }
    }
  }

  private static func bytes(hex: String) -> [UInt8] {
    stride(from: 0, to: hex.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
  }
}

/// One vector, and the providers as they were before it.
private struct RecordedExchange {
  private let vector: JSONObject
  private let site: PushSite
  private let expected: JSONObject
  private let recommended: JSONObject?
  private let former: [String: Int]

  init(_ vector: JSONObject, _ site: PushSite) throws {
    self.vector = vector
    self.site = site
    expected = try vector["expect_current"]?.object ?? vector.object("expect")
    recommended = vector["recommended"]?.object
    former = Self.services(site).mapValues(\.requests.count)
  }

  private static func services(_ site: PushSite) -> [String: FakeService] {
    [
      "apns": site.apple.service, "apns-certificate": site.appleByCertificate.service, "fcm": site.google,
      "web": site.browsers.service,
    ]
  }

  /// The provider's answers; success behind them. Each of several devices has its own answer, whichever is asked
  /// first: no order is promised if a provider takes its time.
  func script() {
    let tokens = devices.filter { $0["app_id"]?.text == "com.example.fcm" }.compactMap { $0["pushkey"]?.text }
    for (provider, answers) in vector["provider_answers"]?.object ?? [:] {
      for (index, answer) in (answers.list?.compactMap(\.object) ?? []).enumerated() {
        let body = answer["body"].map { $0.text ?? $0.json } ?? ""
        let headers = answer["headers"]?.object?.compactMapValues(\.text) ?? [:]
        let made = FakeAnswer.answer(
          Int(answer["status"]?.integer ?? 0), body,
          headers: Dictionary(uniqueKeysWithValues: headers.map { ($0.key.text, $0.value) }))
        if provider == "fcm", tokens.count > 1, index < tokens.count {
          Self.services(site)[provider.text]?.answer(made, to: "\"\(tokens[index])\"")
        } else {
          Self.services(site)[provider.text]?.answer(made)
        }
      }
    }
  }

  func check(_ reply: GatewayClient.Reply, waits: [Duration]) {
    let id = vector.id
    #expect(reply.status == status, "\(id): \(reply.text)")
    if reply.status == 200 {
      #expect(reply.rejected == rejected, "\(id)")
    } else {
      #expect(reply.errorCode != nil, "\(id)")
    }
    if let recorded = expected["retry_delays_seconds"]?.list?.compactMap(\.integer), recommended?["status"] == nil {
      #expect(waits == recorded.map { .seconds($0) }, "\(id)")
    }
    if let asked = Self.recommendedRequests[id] {
      let came = ["apns", "apns-certificate", "fcm", "web"].flatMap { name in seen(name).map { (name, $0) } }
      #expect(came.map(\.0) == asked.services, "\(id)")
      for (body, request) in zip(asked.bodies, came.map(\.1)) {
        #expect(Self.holds(Self.json(request), try? JSONValue(body)), "\(id): \(request.text)")
      }
    } else {
      // A vector that recommends without saying which requests it takes must stand in the table.
      #expect(recommended?["status"] == nil || recommended?["data"] != nil, "\(id)")
    }
    guard recommended?["status"] == nil || recommended?["data"] != nil else { return }
    let requests = expected["provider_requests"]?.list?.compactMap(\.object) ?? []
    if let data = recommended?["data"] {
      #expect(seen("fcm").last.map { Self.json($0).object?["message"]?.object?["data"]?.says(data) } == true, "\(id)")
      return
    }
    for (provider, service) in [("apns", "apns"), ("apns", "apns-certificate"), ("fcm", "fcm"), ("web", "web")] {
      let wanted = requests.filter { request in
        guard request["provider"]?.text == provider else { return false }
        return provider != "apns" || (request["authorization"] == nil) == (service == "apns-certificate")
      }
      let came = seen(service)
      #expect(came.count == wanted.count, "\(id): \(service)")
      // By their devices: see `script`.
      let pairs = zip(
        came.sorted { $0.path + Self.token(Self.json($0)) < $1.path + Self.token(Self.json($1)) },
        wanted.sorted { Self.place($0) < Self.place($1) })
      for (index, pair) in pairs.enumerated() { compare(pair.0, pair.1, index) }
    }
  }

  /// Some vectors recommend another answer than was recorded, and do not say what goes to the providers. For these:
  /// the services that are asked, and the content of the bodies.
  private static let recommendedRequests: [String: (services: [String], bodies: [String])] = [
    "apns-25": (
      ["apns"],
      [
        #"""
        {"aps": {"alert": {"loc-key": "MSG_FROM_USER_IN_ROOM_WITH_CONTENT", "loc-args":
        ["Major Tom", "Mission Control", "I'm floating in a most peculiar way."]}}}
        """#
      ]
    ),
    "apns-33": ([], []), "apns-38": ([], []), "web-21": ([], []),
    "apns-err-04": (["apns"], []), "mix-08": (["apns"], []), "mix-09": (["apns", "fcm"], []),
    "fcm-11": (
      ["fcm"],
      [
        #"""
        {"message": {"data": {"event_id": "$qTOWWTEL48yPm3uT-gdNhFcoHxfKbZuqRVnnWWSkGBs",
        "room_id": "!slw48wfj34rtnrf:example.org", "prio": "high", "unread": "2"}, "token": "fcm-token-1"}}
        """#
      ]
    ),
    "fcm-err-06": (["fcm", "fcm", "fcm"], []), "fcm-err-09": (["fcm", "fcm"], []), "fcm-err-11": (["fcm", "fcm"], []),
    "legacy-err-05": (["fcm", "fcm"], []), "web-err-04": (["web", "web"], []), "web-err-05": (["web"], []),
  ]

  /// Whether `wanted` stands in `value`: an object that holds others may have more members, the innermost may not.
  private static func holds(_ value: JSONValue?, _ wanted: JSONValue?) -> Bool {
    guard let value, let wanted else { return false }
    guard let members = wanted.object, members.values.contains(where: { $0.object != nil }) else {
      return value.says(wanted)
    }
    return members.allSatisfy { name, member in holds(value.object?[name], member) }
  }

  // MARK: What is wanted

  private var status: Int { Int(recommended?["status"]?.integer ?? expected["status"]?.integer ?? 0) }

  private var devices: [JSONObject] {
    vector["request"]?.object?["notification"]?.object?["devices"]?.list?.compactMap(\.object) ?? []
  }

  private var rejected: [String] {
    switch recommended?["rejected"] {
    case .text("all"): return devices.compactMap { $0["pushkey"]?.text }
    case .list(let keys): return keys.compactMap(\.text)
    default: return expected["body"]?.object?["rejected"]?.list?.compactMap(\.text) ?? []
    }
  }

  private func seen(_ service: String) -> [FakeRequest] {
    Array((Self.services(site)[service]?.requests ?? []).dropFirst(former[service] ?? 0))
  }

  private static func token(_ body: JSONValue?) -> String {
    body?.object?["message"]?.object?["token"]?.text ?? ""
  }

  private static func place(_ wanted: JSONObject) -> String { (wanted["path"]?.text ?? "") + token(wanted["body"]) }

  private static func json(_ request: FakeRequest) -> JSONValue {
    // A body that is no JSON equals nothing that was recorded.
    (try? JSONValue(parsing: request.body)) ?? .null
  }

  private func compare(_ came: FakeRequest, _ wanted: JSONObject, _ index: Int) {
    let id = "\(vector.id), request \(index)"
    #expect(came.path == wanted["path"]?.text, "\(id)")
    var headers = wanted["headers"]?.object ?? [:]
    if let topic = recommended?["topic"] { headers["topic"] = topic }
    for name in [
      "apns-topic", "apns-priority", "apns-push-type", "content-type", "ttl", "urgency", "topic", "content-encoding",
    ]
    where headers[JSONName(name)] != nil || name != "content-type" {
      #expect(came.headers[name] == headers[JSONName(name)]?.text, "\(id): \(name)")
    }
    if let payload = wanted["payload"] {
      #expect(Self.json(came).says(payload), "\(id): \(came.text)")
      #expect(came.body.count == Int(wanted["payload_bytes_spaced_json"]?.integer ?? -1), "\(id)")
    }
    if let body = wanted["body"] { #expect(Self.json(came).says(body), "\(id): \(came.text)") }
    if let text = wanted["plaintext"] { compare(came, text: text, id) }
  }

  private func compare(_ came: FakeRequest, text: JSONValue, _ id: String) {
    do {
      let plain = try site.subscription.decrypt(came.body)
      #expect(plain.count <= WebPushText.bytesMax, "\(id)")
      #expect(try JSONValue(parsing: plain).says(text), "\(id)")
    } catch {
      Issue.record("\(id): \(error)")
    }
  }
}
