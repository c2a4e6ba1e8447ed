import Mustache
import RelayCore
import Synchronization
import TestTags
import Testing

@testable import Operations

/// Sessions by a manual clock; templates and pictures.
@Suite(.tags(.unit)) struct ConsoleSessionTests {
  private final class Hands: Sendable {
    private let time = Mutex(ContinuousClock.now)
    private let tokens = Mutex(
      OperatorTokens(
        read: [OperatorToken(name: "viewer", token: Secret(ConsoleSessionTests.readToken))],
        change: [OperatorToken(name: "keeper", token: Secret(ConsoleSessionTests.changeToken))]))

    var now: ContinuousClock.Instant { time.withLock { $0 } }
    var present: OperatorTokens { tokens.withLock { $0 } }
    func pass(_ duration: Duration) { time.withLock { $0 += duration } }
    func configure(_ new: OperatorTokens) { tokens.withLock { $0 = new } }
    func sessions() -> ConsoleSessions { ConsoleSessions(tokens: { self.present }, now: { self.now }) }
  }

  private static let readToken = String(repeating: "r", count: 32)
  private static let changeToken = String(repeating: "c", count: 32)

  private static func cookie(_ entrance: ConsoleSessions.Entrance) throws -> String {
    guard case .opened(let cookie) = entrance else { throw Closed() }
    return cookie
  }
  private struct Closed: Error {}

  @Test func `a session ends an hour after its last use, and twelve hours after its first`() throws {
    let hands = Hands()
    let sessions = hands.sessions()
    let cookie = try Self.cookie(sessions.open(with: Self.readToken))
    for _ in 0..<12 {
      hands.pass(.seconds(3599))
      #expect(sessions.session(cookie) != nil)
    }
    hands.pass(.seconds(12))
    #expect(sessions.session(cookie) == nil, "twelve hours")
    let idle = try Self.cookie(sessions.open(with: Self.readToken))
    hands.pass(.seconds(1800))
    // A page that draws itself is no use.
    #expect(sessions.session(idle, isUse: false) != nil)
    hands.pass(.seconds(1800))
    #expect(sessions.session(idle) == nil)
    #expect(sessions.session(nil) == nil && sessions.session("") == nil && sessions.session(cookie + "x") == nil)
  }

  @Test func `a read token changes nothing, a change token does for fifteen minutes`() throws {
    let hands = Hands()
    let sessions = hands.sessions()
    let cookie = try Self.cookie(sessions.open(with: Self.readToken))
    let session = try #require(sessions.session(cookie))
    #expect(session.changer == nil && session.reader.name == "viewer")
    #expect(sessions.unlock(session, with: Self.readToken) == .wrong)
    #expect(sessions.unlock(session, with: Self.changeToken) == nil)
    #expect(sessions.session(cookie)?.changer?.name == "keeper")
    hands.pass(.seconds(15 * 60))
    #expect(sessions.session(cookie)?.changer == nil)
    let other = try Self.cookie(sessions.open(with: Self.changeToken))
    #expect(sessions.session(other)?.changer?.name == "keeper")
    #expect(sessions.session(other)?.formKey != sessions.session(cookie)?.formKey)
  }

  @Test func `a token that is withdrawn ends what it opened`() throws {
    let hands = Hands()
    let sessions = hands.sessions()
    let reading = try Self.cookie(sessions.open(with: Self.readToken))
    let changing = try Self.cookie(sessions.open(with: Self.changeToken))
    _ = sessions.unlock(try #require(sessions.session(reading)), with: Self.changeToken)
    hands.configure(OperatorTokens(read: hands.present.read, change: []))
    #expect(sessions.session(changing) == nil)
    #expect(sessions.session(reading)?.changer == nil && sessions.session(reading) != nil)
    hands.configure(OperatorTokens(read: [], change: []))
    #expect(sessions.session(reading) == nil && sessions.isOff)
  }

  @Test func `after twenty wrong tokens none is taken for the rest of the minute, the right one neither`() throws {
    let hands = Hands()
    let sessions = hands.sessions()
    for _ in 0..<ConsoleSessions.failuresMax { #expect(sessions.open(with: "x") == .wrong) }
    hands.pass(.seconds(20))
    #expect(sessions.open(with: Self.readToken) == .tooMany(seconds: 40))
    hands.pass(.seconds(40))
    #expect(throws: Never.self) { try Self.cookie(sessions.open(with: Self.readToken)) }
  }

  @Test func `of many sessions, the one that was used longest ago makes room`() throws {
    let hands = Hands()
    let sessions = hands.sessions()
    var cookies: [String] = []
    for _ in 0..<64 {
      cookies.append(try Self.cookie(sessions.open(with: Self.readToken)))
      hands.pass(.seconds(1))
    }
    #expect(sessions.session(cookies[0]) != nil)
    _ = try Self.cookie(sessions.open(with: Self.readToken))
    #expect(sessions.session(cookies[0]) != nil && sessions.session(cookies[1]) == nil)
    #expect(cookies[2...].allSatisfy { sessions.session($0) != nil })
    #expect(Set(cookies).count == 64)
  }

  // MARK: What is drawn

  @Test func `every template is drawn, and shows what it is given as text`() throws {
    let library = try ConsoleTemplates.library()
    for name in ConsoleTemplates.texts.keys {
      let text = try #require(
        library.render(["title": "<T>", "fault": "<F>", "isLive": true] as ConsolePages.Values, withTemplate: name))
      #expect(!text.contains("<T>") && !text.contains("<F>") && !text.contains("{{"), "\(name): \(text)")
    }
    for page in ConsoleLivePage.allCases {
      #expect(ConsoleTemplates.texts[page.template] != nil && ConsoleTemplates.texts[page.liveTemplate] != nil)
    }
  }

  @Test func `certificates are counted in days, and marked before they end`() throws {
    let day: Int64 = 86_400_000
    let pages = ConsolePages(now: Timestamp(millis: 1_000 * day))
    func row(leaf: Int64?, authority: Int64) throws -> ConsolePages.Values {
      pages.row(
        try Self.peer(
          "beta", .reachable, leaf: leaf.map { Timestamp(millis: (1_000 + $0) * day) },
          authority: Timestamp(millis: (1_000 + authority) * day)))
    }
    let well = try row(leaf: 20, authority: 900)
    #expect(well["leaf"] as? String == "20 days left" && well["leafMark"] as? String == "ok")
    #expect(well["authorityMark"] as? String == "ok")
    let soon = try row(leaf: 1, authority: 30)
    #expect(soon["leaf"] as? String == "1 day left" && soon["leafMark"] as? String == "warn")
    #expect(soon["authorityMark"] as? String == "warn")
    let ended = try row(leaf: 0, authority: -3)
    #expect(ended["leafMark"] as? String == "fail" && ended["authorityMark"] as? String == "fail")
    #expect((ended["authority"] as? String)?.hasPrefix("ended on ") == true)
    #expect(try row(leaf: nil, authority: 900)["leaf"] as? String == "-")
  }

  @Test func `the picture names every peer with its state, and no more than it has room for`() throws {
    let peers = [
      try Self.peer("beta", .reachable), try Self.peer("gamma", .away), try Self.peer("delta", .suspended),
    ]
    let svg = PeeringPicture(relay: "alpha", peers: peers).svg
    for text in [
      ">alpha<", ">beta<", ">gamma (away)<", ">delta (suspended)<", #"<line class="away""#,
      "Reachable: beta. Away: gamma. Suspended: delta.",
    ] { #expect(svg.contains(text), "\(text)") }
    #expect(svg.matches(of: /<line\s/).count == 3 && !svg.contains("style="))
    let many = try (0..<60).map { try Self.peer("peer\($0)", .reachable) }
    let crowd = PeeringPicture(relay: "alpha", peers: many).svg
    #expect(crowd.matches(of: /<line\s/).count == 24 && crowd.contains("The picture shows the first 24."))
    #expect(!crowd.contains("nan") && !crowd.contains("inf"))
  }

  @Test func `a form leads back to a page of the console, and nowhere else`() {
    #expect(ConsoleMenu.back(to: "/console/peers/relay-1.example") == "/console/peers/relay-1.example")
    for path in [
      nil, "", "/", "https://evil.example", "//evil.example", "/console/../x", "/console/a?b", "/console/a b",
    ] {
      #expect(ConsoleMenu.back(to: path) == "/console", "\(path ?? "nil")")
    }
  }

  private static func peer(
    _ name: String, _ look: PeerLook, leaf: Timestamp? = nil, authority: Timestamp = Timestamp(millis: 0)
  ) throws -> PeerDescription {
    let time = Timestamp(millis: 0)
    let peer = Peer(
      name: try #require(RelayName(name)), url: "https://\(name):9443", caCertificate: [],
      state: look == .suspended ? .suspended : .active, scopes: [], added: time,
      condition: look == .away ? .unreachable(.network, since: time) : .reachable)
    return PeerDescription(
      peer, url: peer.url, ourWords: "", theirWords: "", theirNextWords: nil, authorityExpires: authority,
      authorities: [], leafExpires: leaf)
  }
}
