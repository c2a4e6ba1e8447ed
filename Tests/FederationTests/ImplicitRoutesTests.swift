import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Which peer a request is for that names no relay (docs/federation.md, "Clients that name no relay").
@Suite(.tags(.stores)) struct ImplicitRoutesTests {
  private let number = AccountNumber(e164: "+15550102030")!

  @Test func `copied contacts are routed from memory alone`() async throws {
    try await withScriptedPeers(["gamma"]) { beta, peers in
      await beta.registry.refresh()
      let directory = KnownHomes([number: .peer(try name("gamma"))])
      let routes = beta.routes(by: directory)
      #expect(try await routes.home(of: number) == name("gamma"))
      #expect(peers[0].requests.isEmpty)
      // A number with an account here is here, whatever a peer lists.
      directory.set([number: .here])
      #expect(try await routes.home(of: number) == nil)
      // No relay has it, and no peer is asked.
      directory.set([:])
      #expect(try await routes.home(of: number) == nil)
      #expect(peers[0].requests.isEmpty)
    }
  }

  @Test func `an operator can switch implicit routes off for a peer`() async throws {
    try await withScriptedPeers(["gamma", "delta"]) { beta, _ in
      let gamma = try name("gamma")
      let routes = beta.routes(by: KnownHomes([number: .peer(gamma)]))
      for (isOn, home) in [(false, nil), (true, gamma)] {
        #expect(try await beta.storage.changePeerPolicy(PeerPolicyChange(routesImplicitly: isOn), of: gamma))
        await beta.registry.refresh()
        #expect(try await routes.home(of: number) == home)
      }
      #expect(try await beta.storage.setPeerState(.suspended, of: gamma))
      await beta.registry.refresh()
      #expect(try await routes.home(of: number) == nil)
    }
  }

  @Test func `a message goes to the asked peer if that peer alone has the number`() async throws {
    try await withScriptedPeers(["gamma", "delta"]) { beta, peers in
      for peer in ["gamma", "delta"] { try await beta.setContacts(.query, of: peer) }
      let (has, hasNot) = (Self.answers(claiming: number), Self.answers(claiming: nil))
      let local = AccountNumber(e164: "+15550102031")!
      for (gamma, delta, home) in [(hasNot, hasNot, nil), (has, has, nil), (has, hasNot, "gamma")] {
        peers[0].answer(by: gamma)
        peers[1].answer(by: delta)
        // Another process, which has asked for nothing yet.
        let routes = beta.routes(by: KnownHomes([:]), localAccount: local)
        #expect(try await routes.home(of: number)?.text == home)
      }
      // Our own accounts are asked of nobody, hidden ones either.
      let asked = peers[0].requests.count
      #expect(try await beta.routes(by: KnownHomes([:]), localAccount: local).home(of: local) == nil)
      #expect(peers[0].requests.count == asked)
    }
  }

  @Test func `a remembered contact's messages go to its peer, even while the peer is silent`() async throws {
    try await withScriptedPeers(["gamma"]) { beta, peers in
      try await beta.setContacts(.query, of: "gamma")
      peers[0].answer(by: Self.answers(claiming: number))
      #expect(try await beta.routes(by: KnownHomes([:])).home(of: number)?.text == "gamma")
      peers[0].answer(by: Self.answers(claiming: nil, status: 500))
      // Another process: then it is for the courier to say that the peer is away, or for its outbox to hold the
      // message.
      let routes = beta.routes(by: KnownHomes([:]))
      #expect(try await routes.home(of: number)?.text == "gamma")
      #expect(try await routes.home(of: AccountNumber(e164: "+15550102032")!) == nil)
    }
  }

  /// A 404 would tell a client that there is no such number.
  @Test func `while the directory loads, no account is said not to exist`() async throws {
    try await withScriptedPeers(["gamma"]) { beta, _ in
      await beta.registry.refresh()
      let local = AccountNumber(e164: "+15550102031")!
      let routes = beta.routes(by: KnownHomes(nil), localAccount: local)
      let ours = try await routes.home(of: local)
      #expect(ours == nil)
      await #expect(throws: Problem(.unavailable, retryAfter: .seconds(1))) { try await routes.home(of: number) }
    }
  }

  @Test func `a mark is taken up from the peer that tells it first`() async throws {
    try await withScriptedPeers(["gamma", "delta"]) { beta, peers in
      await beta.registry.refresh()
      let routes = beta.routes(by: KnownHomes([:]))
      let attachment = AttachmentID(AttachmentMark(4242)!, random: 7)
      #expect(routes.home(of: attachment) == nil)
      for peer in peers { peer.answer(by: Self.answers(claiming: nil, mark: 4242)) }
      for peer in ["gamma", "delta"] {
        let known = try #require(await beta.registry.peer(named: name(peer)))
        _ = await beta.transport.capabilities(of: known)
      }
      #expect(routes.home(of: attachment)?.text == "gamma")
      #expect(try await beta.storage.peers().map(\.attachmentMarks.count) == [0, 1])
      #expect(beta.log.all.contains { $0.contains("attachments.mark") }, "\(beta.log.all)")
      // No peer is asked for ids without a peer's mark, with this relay's own mark, or for earlier releases' small
      // ids.
      for other in [AttachmentID(KnownHomes.ownMark, random: 7), AttachmentID(AttachmentMark(1)!, random: 7)] {
        #expect(routes.home(of: other) == nil)
      }
      #expect(routes.home(of: try #require(AttachmentID(1))) == nil)
      #expect(try await beta.storage.changePeerPolicy(PeerPolicyChange(routesImplicitly: false), of: name("gamma")))
      await beta.registry.refresh()
      #expect(routes.home(of: attachment) == nil)
    }
  }

  @Test func `our own mark is never a peer's`() async throws {
    try await withScriptedPeers(["gamma"]) { beta, peers in
      await beta.registry.refresh()
      let marks = AttachmentMarks(
        own: KnownHomes.ownMark, registry: beta.registry, store: beta.storage, signals: beta.coordination,
        logger: beta.log.logger)
      await marks.told(KnownHomes.ownMark, by: try name("gamma"))
      await marks.told(nil, by: try name("gamma"))
      #expect(try await beta.storage.peers().flatMap(\.attachmentMarks).isEmpty)
      await marks.told(AttachmentMark(8), by: try name("gamma"))
      #expect(try await beta.storage.peers().flatMap(\.attachmentMarks) == [AttachmentMark(8)])
    }
  }

  private static func answers(
    claiming number: AccountNumber?, status: Int = 200, mark: Int? = nil
  ) -> ScriptedPeer.Rule {
    let claim = number.map { #"{"token":"\#(ContactToken(of: $0).base64)"}"# } ?? ""
    let told = mark.map { #","attachmentMark":\#($0)"# } ?? ""
    return { request in
      switch request.path {
      case "/v1/federation/peering":
        .init(status: 200, body: #"{"name":"beta","state":"active","capabilities":["lookup"]\#(told)}"#)
      case "/v1/federation/tokens": .init(status: status, body: #"{"contacts":[\#(claim)]}"#)
      default: .init(status: 404)
      }
    }
  }
}

extension TestRelay {
  fileprivate func routes(by directory: KnownHomes, localAccount: AccountNumber? = nil) -> ImplicitRoutes {
    ImplicitRoutes(
      registry: registry, directory: directory,
      asked: PeerDirectory(
        registry: registry, transport: transport, store: storage, clock: clock, timeout: .seconds(30),
        logger: log.logger),
      ownMark: KnownHomes.ownMark, isLocalAccount: { $0 == localAccount })
  }
}

/// A directory in memory; not loaded when it is made of nil.
private final class KnownHomes: HomeDirectory {
  static let ownMark = AttachmentMark(99)!
  private let homes: Mutex<[ContactToken: ContactHome]?>

  init(_ homes: [AccountNumber: ContactHome]?) { self.homes = Mutex(homes.map(Self.byToken)) }

  var isReady: Bool { homes.withLock { $0 != nil } }
  func home(of token: ContactToken) -> ContactHome? { homes.withLock { $0?[token] } }
  func set(_ homes: [AccountNumber: ContactHome]) { self.homes.withLock { $0 = Self.byToken(homes) } }

  private static func byToken(_ homes: [AccountNumber: ContactHome]) -> [ContactToken: ContactHome] {
    Dictionary(uniqueKeysWithValues: homes.map { (ContactToken(of: $0), $1) })
  }
}
