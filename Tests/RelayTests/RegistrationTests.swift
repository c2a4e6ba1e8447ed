import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes), .ownRelay) struct RegistrationTests {
  let site: RelayOperator
  let relay: RelayProcess
  let number = TestDevice.freshNumber()

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  private let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true}"#

  private func confirm(
    _ code: String, path: String = "/v1/accounts/code/", authorization: String? = nil, body: String? = nil
  ) async throws -> Answer {
    let header = authorization ?? TestDevice.basic("\(number):secret")
    return try await relay.send(
      "PUT", path + code, json: body ?? attributes, headers: [("Authorization", header)])
  }

  /// A code of six digits that is not `code`.
  private func other(_ code: String) -> String { code == "123456" ? "654321" : "123456" }

  private func isKnown(_ password: String) async throws -> Bool {
    let device = TestDevice(number: number, password: password)
    return try await relay.send("GET", "/v1/keys", as: device).status == 200
  }

  @Test func `the development transport answers with the code as people read it`() async throws {
    let answer = try await relay.send("GET", "/v1/accounts/dev/code/\(number)")
    #expect(answer.status == 200)
    #expect(try #/[1-9]\d\d-\d{3}/#.wholeMatch(in: answer.text) != nil)
    #expect(answer.headers["cache-control"] == "no-store")
  }

  @Test func `a code that goes to the number leaves the answer empty`() async throws {
    for transport in ["sms", "voice"] {
      let answer = try await relay.send("GET", "/v1/accounts/\(transport)/code/\(number)?client=ios")
      #expect(answer.status == 200)
      #expect(answer.body.isEmpty)
      #expect(answer.headers["content-length"] == "0")
    }
  }

  @Test(arguments: ["/v1/accounts/code/", "/v1/acccounts/code/"])
  func `the right code makes an account, under both spellings`(path: String) async throws {
    let code = try await relay.code(for: number)
    #expect(try await isKnown("secret") == false)
    let answer = try await confirm(code, path: path)
    #expect(answer.status == 200)
    #expect(answer.body.isEmpty)
    #expect(try await isKnown("secret"))
  }

  @Test func `a number may be escaped in the path`() async throws {
    let escaped = number.replacingOccurrences(of: "+", with: "%2B")
    #expect(try await relay.send("GET", "/v1/accounts/dev/code/\(escaped)").status == 200)
  }

  @Test func `a wrong code is refused and costs the right one nothing`() async throws {
    let code = try await relay.code(for: number)
    #expect(try await confirm(other(code)).status == 403)
    #expect(try await confirm("x").status == 403)
    #expect(try await confirm(code).status == 200)
  }

  @Test func `a code is used once`() async throws {
    let code = try await relay.code(for: number)
    #expect(try await confirm(code).status == 200)
    #expect(try await confirm(code).status == 403)
  }

  @Test func `a new code takes the place of the older one`() async throws {
    let older = try await relay.code(for: number)
    var newer = older
    while newer == older { newer = try await relay.code(for: number) }
    #expect(try await confirm(older).status == 403)
    #expect(try await confirm(newer).status == 200)
  }

  @Test func `five wrong tries void a code`() async throws {
    let code = try await relay.code(for: number)
    for _ in 0..<5 { #expect(try await confirm(other(code)).status == 403) }
    #expect(try await confirm(code).status == 403)
  }

  @Test func `a code of another number is refused`() async throws {
    let code = try await relay.code(for: TestDevice.freshNumber())
    #expect(try await confirm(code).status == 403)
  }

  @Test(arguments: [
    "+123456789", "14155550000", "+1415555000a", "+1234567890123456", "+", "x", "+0123456789", "+1415%205550000",
    "+298", "+29812345", "+2981234567890123",
  ])
  func `a malformed number is refused before its transport is looked at`(text: String) async throws {
    for transport in ["sms", "voice", "dev", "pigeon"] {
      #expect(try await relay.send("GET", "/v1/accounts/\(transport)/code/\(text)").status == 400)
    }
  }

  @Test(arguments: ["+298123456", "+240123456", "+687123456", "+689123456", "+123456789012345"])
  func `short countries and long numbers are let through`(text: String) async throws {
    #expect(try await relay.send("GET", "/v1/accounts/dev/code/\(text)").status == 200)
  }

  @Test func `an unknown transport is refused`() async throws {
    for transport in ["pigeon", "SMS", "de"] {
      #expect(try await relay.send("GET", "/v1/accounts/\(transport)/code/\(number)").status == 415)
    }
  }

  @Test(arguments: ["Basic", "Basic !!!!", "Bearer abc", "Basic " + Data("+15550000000".utf8).base64EncodedString()])
  func `asking for a code ignores any Authorization`(header: String) async throws {
    let answer = try await relay.send(
      "GET", "/v1/accounts/dev/code/\(number)", headers: [("Authorization", header)])
    #expect(answer.status == 200)
  }

  @Test(arguments: [
    "", "Basic", "Bearer abc", "Basic !!!!", TestDevice.basic("+15550000000"), TestDevice.basic("5550000000:x"),
    TestDevice.basic("+15550000000.x:x"), TestDevice.basic("+15550000000.1.1:x"), TestDevice.basic("+15550000000.:x"),
    TestDevice.basic(".1:x"), TestDevice.basic(":"),
  ])
  func `confirming without credentials to create is refused`(header: String) async throws {
    let answer = try await confirm("123456", authorization: header)
    #expect(answer.status == 401)
    #expect(answer.headers["www-authenticate"] == "Basic realm=\"WhisperServer\"")
  }

  @Test(arguments: ["", ".0", ".2", ".99999999999999999999"])
  func `the device in the credentials to be is ignored`(device: String) async throws {
    let code = try await relay.code(for: number)
    #expect(try await confirm(code, authorization: TestDevice.basic("\(number)\(device):secret")).status == 200)
    #expect(try await isKnown("secret"))
    let linking = try await relay.send(
      "PUT", "/v1/devices/000000", json: attributes,
      headers: [("Authorization", TestDevice.basic("\(number)\(device):linked"))])
    #expect(linking.text.hasPrefix("code-refused: "), "\(linking.text)")
  }

  @Test func `the form of credentials is read as clients write it`() async throws {
    let code = try await relay.code(for: number)
    // A device id in the header that creates credentials is ignored; a password may hold colons.
    #expect(try await confirm(code, authorization: TestDevice.basic("\(number).7:a:b:c")).status == 200)
    let encoded = { (text: String) in Data(text.utf8).base64EncodedString() }
    let plain = encoded("\(number):a:b:c")
    let unpadded = encoded("\(number).1:a:b:c").filter { $0 != "=" }
    for header in ["Basic \(plain)", "basic \(plain)", "BASIC \(unpadded)"] {
      #expect(try await relay.send("GET", "/v1/keys", headers: [("Authorization", header)]).status == 200, "\(header)")
    }
  }

  /// Users that do not exist, or not with this password, each for another reason.
  private func strangers(_ device: TestDevice) -> [String] {
    [
      "\(TestDevice.freshNumber()):x", "\(device.number).2:\(device.password)", "\(device.number):x",
      "\(device.number):\(device.password)x", "\(device.number):", "\(device.number).1:\(device.password.dropLast())",
      "\(device.number).2147483647:\(device.password)",
    ]
  }

  @Test func `unknown number, unknown device and wrong password cannot be told apart`() async throws {
    let device = try await relay.register()
    var answers: [Answer] = []
    for (method, path) in [("GET", "/v1/keys"), ("DELETE", "/v1/devices/2"), ("PUT", "/v1/accounts/wsc")] {
      for text in strangers(device) {
        answers.append(try await relay.send(method, path, headers: [("Authorization", TestDevice.basic(text))]))
      }
    }
    #expect(answers.allSatisfy { $0.status == 401 && $0.body == answers[0].body && !$0.body.isEmpty })
    // Each request has an id of its own.
    let headers = answers.map { answer in answer.headers.filter { !["date", "x-request-id"].contains($0.key) } }
    #expect(headers.allSatisfy { $0 == headers[0] })
  }

  @Test func `nor by the time that the refusal takes`() async throws {
    let device = try await relay.register()
    let users = strangers(device)
    var times = [[Duration]](repeating: [], count: users.count)
    // In turns, so that whatever else the machine does meets all alike.
    for _ in 0..<300 {
      for (index, user) in users.enumerated() {
        let header = ("Authorization", TestDevice.basic(user))
        let start = ContinuousClock.now
        #expect(try await relay.send("GET", "/v1/keys", headers: [header]).status == 401)
        times[index].append(ContinuousClock.now - start)
      }
    }
    let medians = times.map { $0.sorted()[$0.count / 2] }
    let (least, most) = (try #require(medians.min()), try #require(medians.max()))
    #expect(most < least * 1.5, "\(medians)")
  }

  @Test(arguments: [
    #"{"signalingKey":"c2ln"}"#,
    #"{"signalingKey":"c2ln","registrationId":"1234","fetchesMessages":"true","supportsSms":"false"}"#,
    #"{"signalingKey":"c2ln","registrationId":null,"fetchesMessages":null,"voice":null,"name":null,"unknown":[{}]}"#,
  ])
  func `attributes are read as clients write them`(body: String) async throws {
    let code = try await relay.code(for: number)
    #expect(try await confirm(code, body: body).status == 200)
  }

  @Test(arguments: [
    "{}", #"{"signalingKey":""}"#, #"{"signalingKey":null}"#, #"{"signalingKey":7}"#,
    #"{"signalingKey":"a","registrationId":"x"}"#, #"{"signalingKey":"a","fetchesMessages":7}"#,
    #"{"signalingKey":"a","registrationId":-1}"#, #"{"signalingKey":"a"} x"#, "", "[]", "null",
  ])
  func `malformed attributes are refused and use no code up`(body: String) async throws {
    let code = try await relay.code(for: number)
    #expect(try await confirm(code, body: body).status == 415)
    #expect(try await confirm(code).status == 200)
  }

  @Test func `a device's name may have 50 characters`() async throws {
    let code = try await relay.code(for: number)
    let body = { (count: Int) in #"{"signalingKey":"c2ln","name":"\#(String(repeating: "ä", count: count))"}"# }
    let answer = try await confirm(code, body: body(51))
    #expect(answer.status == 422)
    #expect(answer.text.hasPrefix("device-name-too-long: "))
    #expect(try await confirm(code, body: body(50)).status == 200)
  }

  @Test func `an account that cannot be reached is in no directory and gets no mail`() async throws {
    let sender = try await relay.register()
    let code = try await relay.code(for: number)
    #expect(try await confirm(code, body: #"{"signalingKey":"c2ln"}"#).status == 200)
    let token = try TestTokens.urlSafe(number)
    #expect(try await relay.send("GET", "/v1/directory/\(token)", as: sender).status == 404)
    #expect(try await relay.send("PUT", "/v1/messages/\(number)", json: bundle(message()), as: sender).status == 404)
  }

  @Test func `registering anew replaces the account and all it had`() async throws {
    let sender = try await relay.register()
    let former = try await relay.register(number)
    try await relay.upload([1, 2], as: former)
    let sent = try await relay.send("PUT", "/v1/messages/\(number)", json: bundle(message()), as: sender)
    #expect(sent.status == 200)

    let present = try await relay.register(number)
    #expect(try await relay.send("GET", "/v1/keys", as: former).status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: present).text == #"{"count":0}"#)
    #expect(try await relay.mailbox(of: present).isEmpty)
    #expect(try await relay.send("GET", "/v1/keys/\(number)", as: sender).status == 404)
  }

  @Test(arguments: ["123456", "123-456"]) func `a voice gateway is told to read the digits`(code: String) async throws {
    let answer = try await relay.send("POST", "/v1/accounts/voice/twiml/\(code)")
    #expect(answer.status == 200)
    #expect(answer.headers["content-type"] == "application/xml")
    #expect(
      answer.text == #"<?xml version="1.0" encoding="UTF-8"?><Response><Say loop="3">"#
        + "Your verification code is: 1, 2, 3, 4, 5, 6.</Say></Response>")
  }

  @Test(arguments: [
    "12345", "1234567", "12-3456", "1234-56", "123--456", "-123456", "12345a", "123_456", "1%2F3456", "%3CSay%3E",
    "12345%0A",
    "%D9%A1%D9%A2%D9%A3%D9%A4%D9%A5%D9%A6", "123456%00", "%31%32%33%34%35",
  ])
  func `nothing but six digits is read aloud`(code: String) async throws {
    let answer = try await relay.send("POST", "/v1/accounts/voice/twiml/\(code)")
    #expect(answer.status == 404)
  }

  @Test func `a number that is proved here is registered, whatever a peer lists, and is found here from then on`()
    async throws
  {
    let token = try TestTokens.contactToken(of: number)
    try await site.listAtPeer("elsewhere", tokens: [token])
    let caller = try await relay.register()
    #expect(try await relay.send("GET", "/v1/directory/\(token.base64)", as: caller).text.contains("elsewhere"))
    #expect(try await confirm(try await relay.code(for: number)).status == 200)
    #expect(try await isKnown("secret"))
    let found = try await relay.send("GET", "/v1/directory/\(token.base64)", as: caller)
    #expect(found.status == 200 && !found.text.contains("relay"))
  }
}

@Suite(
  .tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_FEDERATION_NUMBER_CLAIMS": "refuse"]) { $1 }))
struct ClaimedNumberTests {
  @Test func `if claims are respected, a number that a peer lists is refused, and its code stays good`() async throws {
    let (site, relay) = (try suiteRelay().site, try suiteRelay().relay)
    let number = TestDevice.freshNumber()
    try await site.listAtPeer("elsewhere", tokens: [try TestTokens.contactToken(of: number)])
    let device = TestDevice(number: number, password: "secret")
    let code = try await relay.code(for: number)
    let body = #"{"signalingKey":"c2ln","fetchesMessages":true}"#
    for _ in 0..<2 {
      #expect(try await relay.send("PUT", "/v1/accounts/code/\(code)", json: body, as: device).status == 417)
    }
    #expect(try await relay.send("GET", "/v1/keys", as: device).status == 401)
  }
}

@Suite(.tags(.processes), .ownRelay(["RELAY_DEVELOPMENT_ENABLED": "false"])) struct ProductionTests {
  @Test func `without development mode nobody is told a code`() async throws {
    let suite = try suiteRelay()
    let number = TestDevice.freshNumber()
    #expect(try await suite.relay.send("GET", "/v1/accounts/dev/code/\(number)").status == 415)
    #expect(try await suite.relay.send("GET", "/v1/accounts/sms/code/\(number)").status == 200)
    let code = try #require(suite.relay.log().firstMatch(of: #/verification code (\d{3})-(\d{3})/#))
    let device = TestDevice(number: number, password: "p")
    let answer = try await suite.relay.send(
      "PUT", "/v1/accounts/code/\(code.1)\(code.2)", json: #"{"signalingKey":"c2ln"}"#, as: device)
    #expect(answer.status == 200)
    #expect(!suite.relay.log().contains(number.dropFirst()))
  }
}
