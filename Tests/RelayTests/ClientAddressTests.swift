import ChildProcesses
import RelayCore
import TestSupport
import TestTags
import Testing

/// The address that a request is said to come from when proxies stand before us.
@Suite(.tags(.unit)) struct TrustedProxiesTests {
  private func origin(
    _ direct: String?, via fields: [String] = [], proto: [String] = [],
    trusting ranges: [String] = ["10.0.0.0/8", "::1"]
  ) throws -> RequestOrigin {
    let proxies = TrustedProxies(try ranges.map { try #require(AddressRange(text: $0)) })
    let address = try direct.map { try #require(ClientAddress(text: $0)) }
    return proxies.origin(
      RequestOrigin(address: address, isSecure: false), forwardedFor: fields, forwardedProto: proto)
  }

  private func expect(
    _ fields: [String], from direct: String = "10.0.0.1", are client: String,
    _ location: SourceLocation = #_sourceLocation
  ) throws {
    let address = try #require(ClientAddress(text: client))
    #expect(try origin(direct, via: fields).address == address, "\(fields)", sourceLocation: location)
  }

  @Test func `an untrusted proxy speaks for nobody`() throws {
    try expect(["198.51.100.1"], from: "203.0.113.9", are: "203.0.113.9")
    try expect(["10.0.0.1"], from: "203.0.113.9", are: "203.0.113.9")
    try expect(["::1"], from: "2001:db8::1", are: "2001:db8::1")
    #expect(try !origin("203.0.113.9", proto: ["https"]).isSecure)
    #expect(try !origin("10.0.0.1", via: ["198.51.100.1"], proto: ["https"], trusting: []).isSecure)
  }

  @Test func `a trusted proxy says whom it brings`() throws {
    try expect(["198.51.100.1"], are: "198.51.100.1")
    try expect(["2001:db8::7"], from: "::1", are: "2001:db8::7")
    try expect(["::ffff:198.51.100.1"], are: "198.51.100.1")
    try expect(["198.51.100.1"], from: "::ffff:10.1.2.3", are: "198.51.100.1")
    try expect([" \t198.51.100.1 "], are: "198.51.100.1")
    for entry in ["198.51.100.1:443", "198.51.100.1"] { try expect([entry], are: "198.51.100.1") }
    for entry in ["[2001:db8::7]:443", "[2001:db8::7]"] { try expect([entry], are: "2001:db8::7") }
  }

  @Test func `a header that a client wrote itself is not read`() throws {
    try expect(["203.0.113.66, 198.51.100.1"], are: "198.51.100.1")
    try expect(["10.0.0.5, 198.51.100.1"], are: "198.51.100.1")
    try expect(["203.0.113.66", "198.51.100.1"], are: "198.51.100.1")
    try expect(["203.0.113.66,,x", "198.51.100.1"], are: "198.51.100.1")
  }

  @Test func `proxies behind proxies are passed`() throws {
    try expect(["198.51.100.1, 10.9.9.9"], are: "198.51.100.1")
    try expect(["198.51.100.1", "10.9.9.9, ::1"], are: "198.51.100.1")
    try expect(["203.0.113.66, 198.51.100.1, 10.9.9.9"], are: "198.51.100.1")
    // All are ours: the farthest.
    try expect(["10.3.3.3, 10.2.2.2"], are: "10.3.3.3")
    let endless = Array(repeating: "10.2.2.2", count: 5000).joined(separator: ",")
    try expect(["198.51.100.1," + endless], are: "10.2.2.2")
  }

  @Test(arguments: [
    "", " ", ",", "unknown", "_hidden", "198.51.100.1:", "198.51.100.1:x", "198.51.100.1:1234567", "198.51.100.256",
    "1.2.3", "[::1", "[]", "[198.51.100.1", "[::1]x", "fe80::1%eth0", "198.51.100.1 x", "\"198.51.100.1\"", "::g",
    "198.51.100.1;10.0.0.1",
  ])
  func `for what cannot be read its writer answers`(entry: String) throws {
    try expect([entry], are: "10.0.0.1")
    try expect(["198.51.100.1, \(entry)"], are: "10.0.0.1")
    try expect(["198.51.100.1, \(entry), 10.7.7.7"], are: "10.7.7.7")
  }

  @Test func `without headers, or without an address, the connection says it all`() throws {
    try expect([], are: "10.0.0.1")
    #expect(try origin(nil, via: ["198.51.100.1"], proto: ["https"]) == RequestOrigin(address: nil, isSecure: false))
    #expect(try origin(nil).charges(to: .verifyAddress).map(\.key) == [.everyone])
  }

  @Test func `the scheme is that of the hop which brought the client`() throws {
    let secure = { (fields: [String], proto: [String]) in try origin("10.0.0.1", via: fields, proto: proto).isSecure }
    #expect(try secure(["198.51.100.1"], ["https"]))
    #expect(try secure(["198.51.100.1"], [" HTTPS "]))
    #expect(try secure([], ["https"]))
    #expect(try !secure(["198.51.100.1"], ["http"]))
    #expect(try !secure(["198.51.100.1"], ["https, http"]), "the client wrote the first itself")
    #expect(try secure(["198.51.100.1, 10.9.9.9"], ["https, http"]))
    #expect(try !secure(["203.0.113.66, 198.51.100.1, 10.9.9.9"], ["https", "http, http"]))
    #expect(try secure(["198.51.100.1, 10.9.9.9"], ["https"]))
    for odd in ["", "gopher", "https;", ","] { #expect(try !secure(["198.51.100.1"], [odd]), "\(odd)") }
    let proxies = TrustedProxies([])
    let direct = RequestOrigin(address: nil, isSecure: true)
    #expect(proxies.origin(direct, forwardedFor: [], forwardedProto: ["http"]).isSecure)
  }

  @Test func `limits take an IPv4 address whole, and of IPv6 the networks of one customer`() throws {
    let charges = { (text: String) in
      try origin(text, trusting: []).charges(to: .verifyAddress).map { ($0.key, $0.amount) }
    }
    let keys = { (text: String) in try charges(text).map(\.0) }
    #expect(try keys("198.51.100.1") != keys("198.51.100.2"))
    #expect(try keys("198.51.100.1") == keys("::ffff:198.51.100.1"))
    #expect(try charges("198.51.100.1").map(\.1) == [1])
    // A /64, the /56 and the /48 that it lies in, each four times as wide.
    #expect(try charges("2001:db8:1:2::3").map(\.1) == [1, 0.25, 0.0625])
    #expect(try keys("2001:db8:1:2::3") == keys("2001:db8:1:2:ffff::4"))
    let own = try keys("2001:db8:1:2::3")
    let equal = { (text: String) in try zip(own, keys(text)).map { $0 == $1 } }
    #expect(try equal("2001:db8:1:3::3") == [false, true, true])
    #expect(try equal("2001:db8:1:102::3") == [false, false, true])
    #expect(try equal("2001:db8:2:2::3") == [false, false, false])
    #expect(Set(own).count == 3)
  }

  @Test func `places are shared out by address, and by the networks it lies in`() throws {
    var shares = AddressShares(perAddress: 2)
    let from = { (text: String) in try origin(text, trusting: []) }
    for _ in 0..<2 {
      #expect(try shares.hasRoom(for: from("2001:db8::1")))
      shares.take(try from("2001:db8::1"))
    }
    #expect(try !shares.hasRoom(for: from("2001:db8::2")))
    for network in 1...3 { for _ in 0..<2 { shares.take(try from("2001:db8:0:\(network)::1")) } }
    // The /56 is full; another one is not.
    #expect(try !shares.hasRoom(for: from("2001:db8:0:4::1")))
    #expect(try shares.hasRoom(for: from("2001:db8:0:100::1")))
    shares.giveBack(try from("2001:db8::1"))
    #expect(try shares.hasRoom(for: from("2001:db8:0:4::1")))
    #expect(try shares.hasRoom(for: from("198.51.100.1")))
  }
}

private let perAddress = [
  "RELAY_DEVELOPMENT_ENABLED": "false", "RELAY_LIMITS_CODE_ADDRESS_SIZE": "3",
  "RELAY_LIMITS_CODE_ADDRESS_PER_MINUTE": "0.01", "RELAY_LIMITS_VERIFY_ADDRESS_SIZE": "4",
  "RELAY_LIMITS_VERIFY_ADDRESS_PER_MINUTE": "0.01",
]

/// The limits by client address (reference Part 6, 2 and 3), behind a trusted proxy: the tests themselves.
@Suite(.tags(.processes), .ownRelay(perAddress.merging(["RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.0/8"]) { $1 }))
struct AddressLimitTests {
  let relay: RelayProcess

  init() throws { relay = try suiteRelay().relay }

  private func ask(_ number: String, from address: String) async throws -> Answer {
    try await relay.send("GET", "/v1/accounts/sms/code/\(number)", headers: [("X-Forwarded-For", address)])
  }

  private func attempt(_ path: String, _ number: String, from address: String) async throws -> Answer {
    let device = TestDevice(number: number, password: "p")
    return try await relay.send(
      "PUT", path, json: #"{"signalingKey":"c2ln"}"#, as: device, headers: [("X-Forwarded-For", address)])
  }

  @Test func `codes are limited by the address that asks, whichever numbers it asks for`() async throws {
    for _ in 0..<3 { #expect(try await ask(TestDevice.freshNumber(), from: "198.51.100.1").status == 200) }
    let refused = try await ask(TestDevice.freshNumber(), from: "198.51.100.1")
    #expect(refused.status == 413)
    #expect(refused.headers["retry-after"] != nil)
    #expect(try await ask(TestDevice.freshNumber(), from: "203.0.113.7, 198.51.100.1").status == 413)
    #expect(try await ask(TestDevice.freshNumber(), from: "198.51.100.2").status == 200)
    #expect(try await ask("x", from: "198.51.100.1").status == 400)
  }

  @Test func `with IPv6, a whole customer is charged`() async throws {
    for host in 1...3 {
      #expect(try await ask(TestDevice.freshNumber(), from: "2001:db8:0:1::\(host)").status == 200)
    }
    #expect(try await ask(TestDevice.freshNumber(), from: "2001:db8:0:1::4").status == 413)
    #expect(try await ask(TestDevice.freshNumber(), from: "2001:db8:0:2::4").status == 200)
  }

  @Test func `an address that is refused does not use up a number`() async throws {
    let victim = TestDevice.freshNumber()
    for _ in 0..<3 { _ = try await ask(TestDevice.freshNumber(), from: "198.51.100.30") }
    for _ in 0..<5 { #expect(try await ask(victim, from: "198.51.100.30").status == 413) }
    // The number's bucket has its two charges still.
    for _ in 0..<2 { #expect(try await ask(victim, from: "198.51.100.31").status == 200) }
    #expect(try await ask(victim, from: "198.51.100.31").status == 413)
  }

  @Test func `tries are limited by address, and then cost no number anything`() async throws {
    let path = "/v1/accounts/code/111111"
    for _ in 0..<4 { #expect(try await attempt(path, TestDevice.freshNumber(), from: "198.51.100.50").status == 403) }
    let victim = TestDevice.freshNumber()
    for path in [path, "/v1/accounts/token/x", "/v1/devices/111111"] {
      for _ in 0..<3 { #expect(try await attempt(path, victim, from: "198.51.100.50").status == 413, "\(path)") }
    }
    for path in [path, "/v1/accounts/token/x", "/v1/devices/111111"].prefix(2) {
      #expect(try await attempt(path, victim, from: "198.51.100.51").status == 403, "\(path)")
    }
    #expect(try await attempt("/v1/devices/111111", victim, from: "198.51.100.51").status == 403)
  }
}

private let fewTries = [
  "RELAY_DEVELOPMENT_ENABLED": "false", "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.1",
  "RELAY_LIMITS_VERIFY_NUMBER_PER_MINUTE": "0", "RELAY_LIMITS_VERIFY_DEVICE_PER_MINUTE": "0",
]

/// Tries by number, at the sizes of reference 3.6 (two), behind a trusted proxy.
@Suite(.tags(.processes), .ownRelay(fewTries)) struct TriesByAddressTests {
  let relay: RelayProcess

  init() throws { relay = try suiteRelay().relay }

  private func attempt(_ path: String, _ number: String, from address: String) async throws -> Int {
    try await relay.send(
      "PUT", path, json: #"{"signalingKey":"c2ln"}"#, as: TestDevice(number: number, password: "p"),
      headers: [("X-Forwarded-For", address)]
    ).status
  }

  @Test(arguments: ["/v1/accounts/code/111111", "/v1/devices/111111"])
  func `the tries of a number are counted whatever the address`(path: String) async throws {
    let victim = TestDevice.freshNumber()
    let statuses = try await (0..<4).asyncMap { try await attempt(path, victim, from: "198.51.100.\(80 + $0)") }
    #expect(statuses == [403, 403, 413, 413])
    #expect(try await attempt(path, TestDevice.freshNumber(), from: "198.51.100.80") == 403)
  }

  @Test func `number tokens that do not hold use no tries up`() async throws {
    let number = TestDevice.freshNumber()
    for _ in 0..<4 { #expect(try await attempt("/v1/accounts/token/x", number, from: "198.51.100.90") == 403) }
    for _ in 0..<2 { #expect(try await attempt("/v1/accounts/code/111111", number, from: "198.51.100.90") == 403) }
    #expect(try await attempt("/v1/accounts/code/111111", number, from: "198.51.100.90") == 413)
  }
}

/// The same without a trusted proxy.
@Suite(.tags(.processes), .ownRelay(perAddress)) struct UntrustedAddressTests {
  @Test func `a header does not make a client somebody else`() async throws {
    let relay = try suiteRelay().relay
    let statuses = try await (1...5).asyncMap { index in
      try await relay.send(
        "GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())",
        headers: [("X-Forwarded-For", "198.51.100.\(index)")]
      ).status
    }
    #expect(statuses == [200, 200, 200, 413, 413])
  }
}

private let inTotal = [
  "RELAY_LIMITS_CODE_TOTAL_SIZE": "3", "RELAY_LIMITS_CODE_TOTAL_PER_MINUTE": "0.01",
  "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.1",
]

@Suite(.tags(.processes), .ownRelay(inTotal)) struct TotalLimitTests {
  @Test func `all codes that are sent are limited together, and those that are not sent do not count`() async throws {
    let relay = try suiteRelay().relay
    let ask = { (transport: String, number: String, host: Int) in
      try await relay.send(
        "GET", "/v1/accounts/\(transport)/code/\(number)", headers: [("X-Forwarded-For", "198.51.100.\(host)")]
      ).status
    }
    for host in 1...10 { #expect(try await ask("dev", TestDevice.freshNumber(), host) == 200) }
    let number = TestDevice.freshNumber()
    #expect(try await ask("sms", number, 20) == 200)
    #expect(try await ask("sms", number, 21) == 200)
    // The number's own limit refuses these.
    for host in 22...30 { #expect(try await ask("sms", number, host) == 413) }
    #expect(try await ask("voice", TestDevice.freshNumber(), 31) == 200)
    #expect(try await ask("sms", TestDevice.freshNumber(), 32) == 413)
    #expect(try await ask("dev", TestDevice.freshNumber(), 33) == 200)
  }
}

extension Sequence where Self: Sendable, Element: Sendable {
  /// One after the other.
  fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async rethrows -> [Value] {
    var values: [Value] = []
    for element in self { values.append(try await transform(element)) }
    return values
  }
}
