import ChildProcesses
import Foundation
import FoundationXML
import Synchronization
import TestSupport
import TestTags
import Testing

/// With a key for number tokens, so that these are examined as well.
private let examined = RelayUnderTest.unlimited.merging([
  "RELAY_VERIFICATION_TOKEN_KEY": String(repeating: "0f", count: 32)
]) { $1 }

/// `relay conformance`: a relay of ours keeps every rule, and a server with a defect is found out.
@Suite(.tags(.processes), .ownRelay(examined), .serialized) struct ConformanceTests {
  let site: RelayOperator
  let relay: RelayProcess

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  private func run(_ arguments: String..., target: String? = nil) async throws -> CommandResult {
    try await site.run(["conformance", "--target", target ?? relay.url] + arguments, within: .seconds(300))
  }

  /// The lines of the rules that came out as `mark` says.
  private func lines(_ mark: String, _ result: CommandResult) -> [Substring] {
    result.output.split(separator: "\n").filter { $0.hasPrefix(mark + " ") }
  }

  /// One line each: generation, section, text.
  private func allRules() async throws -> [Substring] {
    try await site.relay("conformance", "--list").split(separator: "\n")
  }

  @Test func `a relay keeps every rule, and again when it is examined again`() async throws {
    let all = try await allRules()
    #expect(all.count >= 200)
    #expect(Set(all).count == all.count, "rules are told apart by their texts")
    let result = try await run()
    #expect(result.exit == .code(0), "\(result.output.suffix(3000)) \(result.errors)")
    #expect(lines("FAIL", result).isEmpty && lines("limit", result).isEmpty && lines("-", result).isEmpty)
    #expect(lines("ok", result).count + lines("skip", result).count == all.count)
    // Rules that only peers, or limits that are not raised, can show. `RealClients` has those of `--across`.
    let skipped = lines("skip", result).filter { !$0.contains("needs --across") }
    #expect(skipped.count <= 5, "\(skipped)")
    #expect(result.output.contains("\(all.count) rules: "))
    let again = try await run("--filter", "1.4")
    #expect(again.exit == .code(0), "\(again.output) \(again.errors)")
  }

  @Test func `a relay as it is by default keeps every rule`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let result = try await site.run(["conformance", "--target", relay.url], within: .seconds(300))
      #expect(result.exit == .code(0), "\(result.output.suffix(3000)) \(result.errors)")
      let limited = result.output.split(separator: "\n").filter { $0.contains("are limited with 413") }
      #expect(limited.count == 2 && limited.allSatisfy { $0.hasPrefix("ok ") }, "\(limited)")
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `one section, or one text, can be examined alone`() async throws {
    let section = try await run("--filter", "1.14")
    #expect(section.exit == .code(0), "\(section.output)")
    #expect(lines("ok", section).count >= 15 && lines("ok", section).allSatisfy { $0.contains("1.14") })
    let text = try await run("--filter", "HANDED out once")
    #expect(lines("ok", text).count == 1, "\(text.output)")
    let nothing = try await run("--filter", "no such rule")
    #expect(nothing.exit == .code(1) && nothing.errors.contains("--list"))
  }

  @Test func `the results are JUnit's XML`() async throws {
    let server = try DefectiveServer(inFrontOf: relay.clientPort) { request, reply in
      var reply = reply
      if request.hasPrefix("DELETE /v1/devices/"), reply.status == 200 { reply.status = 299 }
      return reply
    }
    defer { server.close() }
    let file = site.folder + "/conformance.xml"
    let result = try await run("--filter", "1.14", "--junit", file, target: server.url)
    #expect(result.exit == .code(1))
    let report = try JUnitReport(file)
    #expect(report.root == "testsuites" && report.suites == 1)
    #expect(report.cases == lines("ok", result).count + lines("FAIL", result).count + lines("skip", result).count)
    #expect(report.failures == lines("FAIL", result).count && report.failures > 0)
    #expect(report.texts.contains { $0.contains("expected status 200, got 299") }, "\(report.texts)")
  }

  // MARK: Servers with one defect

  struct Seeded: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The rules that are run, and those that must be found broken.
    let filter: String
    let broken: String
    let defect: DefectiveServer.Defect
    let socketDefect: DefectiveServer.SocketDefect

    init(_ text: String, filter: String, broken: String, defect: @escaping DefectiveServer.Defect) {
      self.init(text, filter, broken, defect) { [$0] }
    }

    /// One of WebSockets, which `rule` alone must notice.
    init(_ text: String, rule: String, defect: @escaping DefectiveServer.SocketDefect) {
      self.init(text, rule, rule, { $1 }, defect)
    }

    private init(
      _ text: String, _ filter: String, _ broken: String, _ defect: @escaping DefectiveServer.Defect,
      _ socketDefect: @escaping DefectiveServer.SocketDefect
    ) {
      testDescription = text
      self.filter = filter
      self.broken = broken
      self.defect = defect
      self.socketDefect = socketDefect
    }
  }

  static let seeded = [
    Seeded("204 for 200", filter: "success without a body", broken: "success without a body") { _, reply in
      var reply = reply
      if reply.status == 200, reply.body.isEmpty { reply.status = 204 }
      return reply
    },
    Seeded("401 without a challenge", filter: "1.1", broken: "with 401 and a Basic challenge") { _, reply in
      var reply = reply
      reply.headers.removeAll { $0.lowercased().hasPrefix("www-authenticate") }
      return reply
    },
    Seeded("409 lacks an array when it is empty", filter: "5.7", broken: "one device missing: 409") { _, reply in
      var reply = reply
      if reply.status == 409 { reply.text = reply.text.replacing(",\"extraDevices\":[]", with: "") }
      return reply
    },
    Seeded("needsSync is always false", filter: "copy them", broken: "is told to copy them") { _, reply in
      var reply = reply
      if reply.text == #"{"needsSync":true}"# { reply.text = #"{"needsSync":false}"# }
      return reply
    },
    Seeded("tokens are answered padded", filter: "1.11", broken: "answered unpadded") { request, reply in
      var reply = reply
      if request.hasPrefix("PUT /v1/directory/tokens") {
        reply.text = reply.text.replacing("\"}", with: "==\"}")
      }
      return reply
    },
    Seeded("an upload is answered with 201", filter: "1.10", broken: "each exactly 200") { request, reply in
      var reply = reply
      if request.hasPrefix("PUT /v1/attachments/"), reply.status == 200 { reply.status = 201 }
      return reply
    },
    Seeded("any receipt is taken", filter: "6.12", broken: "never received") { request, reply in
      request.hasPrefix("PUT /v1/receipt/") ? DefectiveServer.Reply(status: 200) : reply
    },
    Seeded("a drawn key is shown again", filter: "1.6", broken: "is handed out once", defect: repeatingDraws()),
  ]

  /// Answers each draw with what it answered to the first one of that path.
  private static func repeatingDraws() -> DefectiveServer.Defect {
    let first = Mutex([String: DefectiveServer.Reply]())
    return { request, reply in
      guard request.hasPrefix("GET /v1/keys/"), reply.status == 200 else { return reply }
      return first.withLock { first in
        if let known = first[request] { return known }
        first[request] = reply
        return reply
      }
    }
  }

  @Test(arguments: seeded + SocketDefects.seeded) func `a defect is found out`(_ seeded: Seeded) async throws {
    let server = try DefectiveServer(
      inFrontOf: relay.clientPort, defect: seeded.defect, socketDefect: seeded.socketDefect)
    defer { server.close() }
    let result = try await run("--filter", seeded.filter, target: server.url)
    #expect(result.exit == .code(1), "\(result.output) \(result.errors)")
    #expect(lines("FAIL", result).contains { $0.contains(seeded.broken) }, "\(result.output)")
    // The same server without the defect keeps these rules.
    let sound = try DefectiveServer(inFrontOf: relay.clientPort) { $1 }
    defer { sound.close() }
    let again = try await run("--filter", seeded.broken, target: sound.url)
    #expect(again.exit == .code(0), "\(again.output) \(again.errors)")
  }

  @Test func `a server that says yes to everything breaks most rules, and shows no credentials`() async throws {
    let server = try DefectiveServer(inFrontOf: nil) { _, _ in
      DefectiveServer.Reply(status: 200, headers: ["Content-Type: application/json"], body: Array("123-456".utf8))
    }
    defer { server.close() }
    let result = try await run(target: server.url)
    #expect(result.exit == .code(1))
    let all = try await allRules()
    #expect(lines("FAIL", result).count > all.count * 8 / 10, "\(lines("ok", result))")
    #expect(!result.output.contains("+999") && !result.output.contains("Basic K") && !result.output.contains("123456"))
  }

  @Test func `a server that limits everything is reported as limited, and has not passed`() async throws {
    let server = try DefectiveServer(inFrontOf: nil) { request, _ in
      request.contains("/v1/accounts/dev/code/+")
        ? DefectiveServer.Reply(status: 200, body: Array("123-456".utf8))
        : DefectiveServer.Reply(status: 413, headers: ["Retry-After: 3600"])
    }
    defer { server.close() }
    let result = try await run("--filter", "1.7", target: server.url)
    #expect(result.exit == .code(1))
    #expect(!lines("limit", result).isEmpty && lines("FAIL", result).isEmpty && lines("ok", result).isEmpty)
    #expect(result.output.contains("limited for 3600 s"))
  }

  @Test func `a server without the transport dev is told, with the remedy`() async throws {
    try await RelayOperator.with(settings: ["RELAY_DEVELOPMENT_ENABLED": "false"]) { site in
      let relay = try await site.serve()
      let result = try await site.run(["conformance", "--target", relay.url])
      #expect(result.exit == .code(1) && result.output.isEmpty)
      #expect(result.errors.contains("development.enabled=true"))
      #expect(await relay.terminate() == .code(0))
    }
    let port = try Loopback.freePorts(1)[0]
    let silent = try await run(target: "http://127.0.0.1:\(port)")
    #expect(silent.exit == .code(1) && silent.errors.contains("gives no answer"), "\(silent.errors)")
  }

  @Test func `wrong usage exits with 64`() async throws {
    for arguments in [
      [], ["--target", "http://x", "--timeout", "0"], ["--target", "http://x", "--relay", "Not A Name"],
    ] {
      #expect(try await site.run(["conformance"] + arguments).exit == .code(64), "\(arguments)")
    }
    for arguments in [["--target", "x"], ["--target", relay.url, "--numbers", "999"]] {
      let result = try await site.run(["conformance"] + arguments)
      #expect(result.exit == .code(1) && !result.errors.isEmpty, "\(arguments)")
    }
  }
}

/// A report as a CI system sees it.
private final class JUnitReport: NSObject, XMLParserDelegate {
  private(set) var root: String?
  private(set) var suites = 0
  private(set) var cases = 0
  private(set) var failures = 0
  private(set) var texts: [String] = []

  init(_ file: String) throws {
    super.init()
    let parser = XMLParser(data: try Data(contentsOf: URL(fileURLWithPath: file)))
    parser.delegate = self
    guard parser.parse() else { throw TestFailure("the report is no XML: line \(parser.lineNumber)") }
  }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    root = root ?? name
    switch name {
    case "testsuite": suites += 1
    case "testcase": cases += 1
    case "failure":
      failures += 1
      texts.append(attributes["message"] ?? "")
    default: break
    }
  }
}
