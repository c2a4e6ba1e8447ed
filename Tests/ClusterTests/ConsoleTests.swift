import AsyncHTTPClient
import ChildProcesses
import Foundation
import NIOCore
import NIOHTTP1
import TestSupport
import TestTags
import Testing

/// The operator's pages as an operator has them: in a browser, by keyboard, and without scripts.
@Suite(.tags(.processes)) struct ConsoleTests {
  private static let read = String(repeating: "r", count: 40)
  private static let change = String(repeating: "c", count: 40)
  private static let tokens = [
    "RELAY_OPERATOR_READ_TOKENS": "viewer:\(read)", "RELAY_OPERATOR_CHANGE_TOKENS": "keeper:\(change)",
  ]

  private static func withPeeredSites(_ body: @Sendable (PeeredSites) async throws -> Void) async throws {
    try await PeeredSites.with(alphaSettings: tokens, body)
  }

  // MARK: In a browser

  @Test func `an operator signs in, looks around, and sees a peer go and come back`() async throws {
    try await Self.withPeeredSites { sites in
      let url = sites.alphaRelay.operatorURL
      try await Browser.with { browser in
        try await browser.open(url + "/console")
        try await browser.shows("Sign in")
        try await browser.type("no token of this relay", into: "#token")
        try await browser.press(.enter)
        try await browser.shows("That is no token of this relay.")
        try await browser.type(Self.read, into: "#token")
        try await browser.press(.enter)
        try await browser.shows("Delivered a second")
        #expect(try await browser.text.contains("ready"))

        // Drawn anew by events, without a load.
        try await browser.run("window.wasHere = true")
        try await browser.shows("Live, drawn at")
        #expect(try await browser.run("return window.wasHere") as? Bool == true)
        try await browser.click("nav a[href='/console/peers']")
        try await browser.shows("beta")
        try await browser.shows("Live, drawn at")
        let picture = try await Picture(png: try await browser.screenshot(of: "svg.picture"))
        // The line to a peer that answers is drawn in the colour of what is well.
        #expect(picture.count(near: (0x14, 0x60, 0x2F)) > 300, "\(picture.width)x\(picture.height)")
        #expect(picture.count(near: (0xA3, 0x13, 0x1D)) < 20)

        await sites.betaRelay.kill9()
        try await browser.shows("away: ", within: .seconds(90))
        let after = try await Picture(png: try await browser.screenshot(of: "svg.picture"))
        #expect(after.count(near: (0xA3, 0x13, 0x1D)) > 100 && after.count(near: (0x14, 0x60, 0x2F)) < 20)

        for (path, words) in [
          ("/console/queues", "Nothing waits for any peer."), ("/console/doctor", "failed"),
          ("/console/push", "Show attempts"), ("/console/audit", "peer invite"),
        ] {
          try await browser.click("nav a[href='\(path)']")
          try await browser.shows(words, within: .seconds(40))
          #expect(try await browser.run("return document.querySelector('[aria-current]').pathname") as? String == path)
          #expect(try await Picture(png: try await browser.screenshot()).ink > 0.005, "\(path) is drawn")
        }
        #expect(try await browser.text.contains("user:"), "who invited")
        #expect(try await browser.complaints().filter { $0.contains("Content Security Policy") } == [])

        try await browser.click("header button")
        try await browser.shows("Sign in")
        try await browser.open(url + "/console/peers")
        try await browser.shows("Sign in")
      }
    }
  }

  @Test func `changing needs a second token, and stands in the audit log`() async throws {
    try await Self.withPeeredSites { sites in
      let url = sites.alphaRelay.operatorURL
      try await Browser.with { browser in
        try await Self.signIn(browser, url)
        try await browser.open(url + "/console/peers/beta")
        try await browser.shows("What this relay may still do there")
        #expect(try await browser.text.contains("peer-recipients"))
        #expect(try await browser.run("return document.querySelectorAll('.actions button').length") as? Int == 0)
        try await browser.click("main a[href^='/console/unlock']")
        try await browser.type(Self.read, into: "#token")
        try await browser.press(.enter)
        try await browser.shows("That token may change nothing here.")
        try await browser.type(Self.change, into: "#token")
        try await browser.press(.enter)
        try await browser.shows("Test the way to beta")

        try await browser.click("form[action$='/test'] button")
        try await browser.shows("The way is whole.", within: .seconds(60))
        try await browser.click("main a[href='/console/peers/beta']")
        try await browser.type("moving house", into: "#reason")
        try await browser.click("form[action$='/suspend'] button")
        try await browser.shows("suspended: moving house")
        let list = try await sites.alpha.run(["peer", "list", "--json"])
        #expect(list.output.contains(#""state" : "suspended""#) || list.output.contains(#""state":"suspended""#))
        try await browser.click("form[action$='/resume'] button")
        try await browser.shows("beta is active.")
        try await browser.click("form[action$='/retry'] button")
        try await browser.shows("Nothing waits for it.")
        try await browser.click("nav a[href='/console/audit']")
        try await browser.shows("token:keeper")
        let log = try await sites.alpha.relay("audit")
        for action in ["peer suspend", "peer resume", "queue retry"] { #expect(log.contains(action), "\(log)") }
        #expect(log.contains("token:keeper") && !log.contains(Self.change))
      }
      #expect(!sites.alphaRelay.log().contains(Self.change) && !sites.alphaRelay.log().contains(Self.read))
    }
  }

  @Test func `no page has a fault that axe-core finds, and the keyboard reaches all of it`() async throws {
    let axe = try String(contentsOf: Self.axe(), encoding: .utf8)
    try await Self.withPeeredSites { sites in
      let url = sites.alphaRelay.operatorURL
      try await Browser.with { browser in
        try await browser.open(url + "/console/sign-in")
        try await Self.expectAccessible(browser, axe)
        try await Self.signIn(browser, url)
        for path in [
          "", "/peers", "/peers/beta", "/queues", "/doctor", "/push", "/audit", "/unlock", "/peers/nobody",
        ] {
          try await browser.open(url + "/console" + path)
          try await Self.expectAccessible(browser, axe)
        }
        // From the top of the page: what skips, then the menu in its order, then leaving, then what is on the page.
        try await browser.open(url + "/console/push")
        var reached: [String] = []
        for _ in 0..<10 {
          try await browser.press(.tab)
          let focus =
            "const e = document.activeElement; return e.id || e.getAttribute('href') || e.textContent.trim()"
          reached.append(try await browser.run(focus) as? String ?? "")
        }
        #expect(
          reached == [
            "#main", "/console", "/console/peers", "/console/queues", "/console/doctor", "/console/push",
            "/console/audit", "Sign out", "device", "Show attempts",
          ])
      }
    }
  }

  private static func expectAccessible(_ browser: Browser, _ axe: String) async throws {
    let script =
      axe + """
        ; const done = arguments[arguments.length - 1];
        axe.run().then((found) => done(found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" "))),
          (fault) => done(["axe: " + fault]));
        """
    let found = try await browser.runToTheEnd(script) as? [String]
    let address = try await browser.address
    #expect(found == [], "\(address)")
    #expect(try await browser.run("return document.documentElement.lang") as? String == "en")
  }

  /// axe-core, which scripts/install-python-tools.sh installs.
  private static func axe() throws -> URL {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: ".build/python/lib")
    let versions = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return try #require(
      versions.map { $0.appending(path: "site-packages/axe_playwright_python/axe.min.js") }
        .first { FileManager.default.fileExists(atPath: $0.path) }, "scripts/install-python-tools.sh installs it")
  }

  private static func signIn(_ browser: Browser, _ url: String) async throws {
    try await browser.open(url + "/console/sign-in")
    try await browser.type(read, into: "#token")
    try await browser.press(.enter)
    try await browser.shows("Delivered a second")
  }

  // MARK: Without a browser

  @Test func `every page can be read without scripts, and takes nothing from elsewhere`() async throws {
    try await Self.withPeeredSites { sites in
      let visitor = try await ConsoleVisitor(sites.alphaRelay, token: Self.read)
      for (path, words) in [
        ("", "Delivered a second"), ("/peers", "beta"), ("/queues", "Nothing waits"), ("/doctor", "ok"),
        ("/push", "Show attempts"), ("/audit", "peer invite"), ("/peers/beta", "peer-recipients"),
        ("/peers/beta", "<dt>Clients reach it without naming it</dt><dd>on</dd>"),
      ] {
        let page = try await visitor.get("/console" + path)
        #expect(page.status == 200 && page.text.contains(words), "\(path): \(page.text.prefix(800))")
        let policy = page.headers["content-security-policy"] ?? ""
        #expect(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"))
        #expect(!policy.contains("unsafe") && page.headers["cache-control"] == "no-store")
        // No address but the console's own.
        let addresses = page.text.matches(of: /(?:src|href|action)="([^"]*)"/).map(\.output.1)
        #expect(addresses.allSatisfy { $0.hasPrefix("/console") || $0 == "#main" || $0 == "data:," }, "\(addresses)")
      }
      #expect(try await visitor.get("/console/peers/nobody").status == 404)
      #expect(try await visitor.get("/console/audit?before=x").status == 400)
    }
  }

  @Test func `strangers, other sites' forms and read tokens change nothing`() async throws {
    try await Self.withPeeredSites { sites in
      let relay = sites.alphaRelay
      let stranger = ConsoleVisitor(relay)
      for path in ["", "/peers", "/peers/beta", "/queues", "/doctor", "/push", "/audit", "/events?page=overview"] {
        let answer = try await stranger.get("/console" + path)
        #expect(answer.status == 303 && answer.headers["location"] == "/console/sign-in", "\(path): \(answer.status)")
      }
      let visitor = try await ConsoleVisitor(relay, token: Self.read)
      let form = try await visitor.formKey()
      let suspend = "/console/peers/beta/suspend"
      #expect(try await visitor.post(suspend, ["form": form]).status == 403, "a read token")
      let changer = try await ConsoleVisitor(relay, token: Self.change)
      let own = try await changer.formKey()
      #expect(try await changer.post(suspend, [:]).status == 403, "no key of the form")
      #expect(try await changer.post(suspend, ["form": form]).status == 403, "another session's")
      let foreign = try await changer.post(suspend, ["form": own], origin: "http://evil.example")
      #expect(foreign.status == 403 && foreign.text.contains("another site"))
      #expect(try await changer.post(suspend, ["form": own], origin: "null").status == 403)
      #expect(try await stranger.post(suspend, ["form": own]).status == 303)
      let long = try await changer.post(suspend, ["form": own, "reason": String(repeating: "x", count: 201)])
      #expect(long.text.contains("at most 200 bytes"))
      let huge = try await changer.post(suspend, ["form": own, "reason": String(repeating: "x", count: 5000)])
      #expect(huge.status == 413)
      #expect(try await sites.alpha.relay("peer", "list").contains("active"))
      // Typed markup is shown as text.
      let marked = try await changer.post(suspend, ["form": own, "reason": "<script>alert(1)</script>"])
      #expect(marked.status == 200 && marked.text.contains("&lt;script&gt;") && !marked.text.contains("<script>alert"))
    }
  }

  @Test func `wrong tokens are slowed down, and a token that is withdrawn ends its sessions`() async throws {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      let file = site.folder + "/tokens"
      try Data("viewer:\(Self.read)\nother:\(String(repeating: "o", count: 40))\n".utf8)
        .write(to: URL(fileURLWithPath: file))
      let relay = try await site.serve(["RELAY_OPERATOR_READ_TOKENS_FILE": file])
      let visitor = try await ConsoleVisitor(relay, token: Self.read)
      #expect(try await visitor.get("/console").status == 200)
      try Data("other:\(String(repeating: "o", count: 40))\n".utf8).write(to: URL(fileURLWithPath: file))
      relay.child.send(SIGHUP)
      try await eventually("the session has ended", within: .seconds(20)) {
        try await visitor.get("/console").status == 303
      }
      let stranger = ConsoleVisitor(relay)
      var statuses: [Int] = []
      for _ in 0..<25 { statuses.append(try await stranger.post("/console/sign-in", ["token": "wrong"]).status) }
      #expect(statuses.filter { $0 == 401 }.count == 20 && statuses.last == 429)
      #expect(await relay.terminate() == .code(0))
    }
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let answer = try await ConsoleVisitor(relay).get("/console/sign-in")
      #expect(answer.status == 403 && answer.text.contains("operator.read-tokens"))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `while the store is away every page answers, and says so`() async throws {
    // Without a device the push history asks no store.
    let paths = ["", "/peers", "/queues", "/audit", "/doctor"]
    try await Cluster.with("alpha", settings: Self.tokens, ownPostgres: true) { alpha in
      try await alpha.serve(1) { relays in
        let visitor = try await ConsoleVisitor(relays[0], token: Self.read)
        try await Loopback.blocking { try alpha.postgres.stop() }
        try await eventually("the relay has seen it", within: .seconds(30)) { await relays[0].readyz()?.status == 503 }
        for path in paths {
          let page = try await visitor.get("/console" + path)
          #expect([200, 503].contains(page.status) && page.text.contains("<nav"), "\(path): \(page.status)")
          let words = ["does not answer", "not connected to PostgreSQL", "PostgreSQL is down"]
          #expect(words.contains { page.text.contains($0) }, "\(path): \(page.text.suffix(1500))")
        }
        try await Loopback.blocking { try alpha.postgres.start() }
        for path in paths.dropLast() {
          try await eventually("\(path) is drawn again", within: .seconds(30)) {
            let page = try await visitor.get("/console" + path)
            return page.status == 200 && !page.text.contains("does not answer")
          }
        }
      }
    }
  }

  @Test func `a relay stops while somebody watches`() async throws {
    try await RelayOperator.with(settings: Cluster.unlimited) { site in
      let relay = try await site.serve(Self.tokens)
      let visitor = try await ConsoleVisitor(relay, token: Self.read)
      let events = try await visitor.stream("/console/events?page=overview")
      #expect(events.headers.first(name: "content-type") == "text/event-stream")
      var pieces = events.body.makeAsyncIterator()
      let first = try #require(try await pieces.next(), "a page is drawn")
      #expect(String(buffer: first).hasPrefix("event: draw\ndata: "))
      #expect(await relay.terminate() == .code(0))
      // The stream ends with the process, in order.
      while try await pieces.next() != nil {}
    }
  }
}
