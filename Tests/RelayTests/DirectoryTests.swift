import Foundation
import TestSupport
import TestTags
import Testing

/// Contact look-ups (reference 1.11).
@Suite(.tags(.processes), .ownRelay) struct DirectoryTests {
  let site: RelayOperator
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    caller = try await relay.register()
  }

  private func ask(_ tokens: [String]) async throws -> Answer {
    let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
    return try await relay.send("PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(list)]}"#, as: caller)
  }

  private func ask(path token: String) async throws -> Answer {
    try await relay.send("GET", "/v1/directory/\(token)", as: caller)
  }

  @Test func `known tokens come in the order of the request, unknown ones are left out, repeated ones come once`()
    async throws
  {
    let devices = [try await relay.register(), try await relay.register(), try await relay.register()]
    let known = try devices.map { try TestTokens.token(of: $0.number) }
    let unknown = try TestTokens.token(of: TestDevice.freshNumber())
    let answer = try await ask([known[2], unknown, known[0], known[2], known[1], known[0]])
    #expect(answer.status == 200)
    #expect(answer.headers["content-type"] == "application/json")
    let expected = [known[2], known[0], known[1]].map { #"{"token":"\#($0)"}"# }.joined(separator: ",")
    #expect(answer.text == #"{"contacts":[\#(expected)]}"#)
    #expect(try await ask([]).text == #"{"contacts":[]}"#)
    #expect(try await ask([unknown]).text == #"{"contacts":[]}"#)
  }

  @Test func `an account's words about itself are shown when they are true`() async throws {
    let device = try await relay.register(attributes: #","supportsSms":true,"voice":true"#)
    let token = try TestTokens.token(of: device.number)
    let entry = #"{"token":"\#(token)","supportsSms":true,"voice":true}"#
    #expect(try await ask([token]).text == #"{"contacts":[\#(entry)]}"#)
    #expect(try await ask(path: try TestTokens.urlSafe(device.number)).text == entry)
  }

  @Test func `a contact of a peer carries the peer's name, an own account none`() async throws {
    let ours = try await relay.register()
    let theirs = TestDevice.freshNumber()
    let tokens = try [theirs, ours.number].map { try TestTokens.token(of: $0) }
    let listed = try [theirs, ours.number].map { try TestTokens.contactToken(of: $0) }
    try await site.listAtPeer("elsewhere", tokens: listed)
    let expected = #"{"contacts":[{"token":"\#(tokens[0])","relay":"elsewhere"},{"token":"\#(tokens[1])"}]}"#
    try await eventually("the peer's contact is known", every: .milliseconds(100)) {
      try await ask(tokens).text == expected
    }
    let path = try TestTokens.urlSafe(theirs)
    #expect(try await ask(path: path).text == #"{"token":"\#(tokens[0])","relay":"elsewhere"}"#)
  }

  @Test(arguments: ["", "x", "AAAA", "AAAAAAAAAAAAAAAA", "!!!!!!!!!!!!!!", "AAAAAAAAAAAAA", "AAAAAAAAAAAAA="])
  func `a token that is not the base64 of 10 bytes fails the whole request`(token: String) async throws {
    let good = try TestTokens.token(of: caller.number)
    #expect(try await ask([good, token]).status == 400)
    #expect(try await ask(path: token).status == 404)
  }

  @Test func `a token with a character that no text of ours may hold is no token either`() async throws {
    let good = try TestTokens.token(of: caller.number)
    for token in [#"\u0000"#, good + #"\u0000"#, #"AAAAAAAAAAAA\u0000A"#] {
      let answer = try await ask([good, token])
      #expect(answer.status == 400 && answer.text.hasPrefix("undecodable-token: "))
    }
  }

  @Test func `an unknown token is not found`() async throws {
    #expect(try await ask(path: try TestTokens.urlSafe(TestDevice.freshNumber())).status == 404)
  }

  enum Peculiarity: String, CaseIterable {
    case slashInside, slashInFront, twoSlashes, plus

    func isFound(in token: String) -> Bool {
      switch self {
      case .slashInside: token.dropFirst().contains("/") && !token.hasPrefix("/") && !token.contains("//")
      case .slashInFront: token.hasPrefix("/")
      case .twoSlashes: token.dropFirst().contains("//")
      case .plus: token.contains("+") && !token.contains("/")
      }
    }
  }

  /// One token in five has a slash.
  @Test(arguments: Peculiarity.allCases)
  func `a token in the path is taken as it stands`(peculiarity: Peculiarity) async throws {
    let number = try TestTokens.number { peculiarity.isFound(in: $0) }
    _ = try await relay.register(number)
    let token = try TestTokens.token(of: number)
    let expected = #"{"token":"\#(token)"}"#
    let escaped = token.replacingOccurrences(of: "/", with: "%2F")
    for path in [token, escaped, try TestTokens.urlSafe(number), token + "==", token + "/"] {
      #expect(try await ask(path: path).text == expected, "\(path)")
    }
  }

  @Test(arguments: [
    "{}", #"{"contacts":null}"#, #"{"contacts":{}}"#, #"{"contacts":[7]}"#, #"{"contacts":[null]}"#, "[]",
  ])
  func `a malformed request is refused`(json: String) async throws {
    #expect(try await relay.send("PUT", "/v1/directory/tokens", json: json, as: caller).status == 415)
  }

  @Test func `so many tokens are looked up at once, and more never are`() async throws {
    let unknown = try TestTokens.token(of: TestDevice.freshNumber())
    let known = try TestTokens.token(of: caller.number)
    let most = Array(repeating: unknown, count: 19_999) + [known]
    #expect(try await ask(most).text == #"{"contacts":[{"token":"\#(known)"}]}"#)
    let answer = try await ask(most + [unknown])
    #expect(answer.status == 413 && answer.text.hasPrefix("too-many-tokens: "))
    #expect(answer.headers["retry-after"] == nil)
    // A list that is too long is not charged: the bucket of 50,000 has room for the same again.
    #expect(try await ask(most).status == 200)
  }

  @Test func `thousands of different contacts are answered in their order, some of them known`() async throws {
    let devices = [try await relay.register(), try await relay.register(), try await relay.register()]
    let known = try devices.map { try TestTokens.token(of: $0.number) }
    var tokens = try (0..<3000).map { try TestTokens.token(of: "+4915\(10_000_000 + $0)") }
    for (index, place) in [0, 1500, 3002].enumerated() { tokens.insert(known[index], at: place) }
    let expected = #"{"contacts":["# + known.map { #"{"token":"\#($0)"}"# }.joined(separator: ",") + "]}"
    #expect(try await ask(tokens).text == expected)
    #expect(try await ask(tokens).text == expected, "once more, from memory")
    let reversed = #"{"contacts":["# + known.reversed().map { #"{"token":"\#($0)"}"# }.joined(separator: ",") + "]}"
    #expect(try await ask(tokens.reversed()).text == reversed)
  }
}
