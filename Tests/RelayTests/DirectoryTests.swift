import Foundation
import TestSupport
import Testing

/// Contact look-ups (reference 1.11).
@Suite(.ownRelay) struct DirectoryTests {
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

  @Test func `what an account says of itself is shown when it is true`() async throws {
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
    let answer = try await ask(tokens)
    #expect(
      answer.text == #"{"contacts":[{"token":"\#(tokens[0])","relay":"elsewhere"},{"token":"\#(tokens[1])"}]}"#)
  }

  @Test(arguments: ["", "x", "AAAA", "AAAAAAAAAAAAAAAA", "!!!!!!!!!!!!!!", "AAAAAAAAAAAAA", "AAAAAAAAAAAAA="])
  func `a token that is not the base64 of 10 bytes fails the whole request`(token: String) async throws {
    let good = try TestTokens.token(of: caller.number)
    #expect(try await ask([good, token]).status == 400)
    #expect(try await ask(path: token).status == 404)
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

  @Test func `more tokens than the bucket holds can never pass`() async throws {
    let unknown = try TestTokens.token(of: TestDevice.freshNumber())
    let answer = try await ask(Array(repeating: unknown, count: 50_001))
    #expect(answer.status == 413)
    #expect(answer.headers["retry-after"] == nil)
    #expect(try await ask(Array(repeating: unknown, count: 50_000)).status == 200)
    let empty = try await ask([unknown, unknown])
    #expect(empty.status == 200 || empty.status == 413)  // Some charges have come back by now.
  }
}
