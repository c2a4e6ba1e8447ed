import NIOCore
import NIOPosix
import RelayCore
import RelayHTTP
import RelayWork
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Push

/// Which of its addresses a push service is asked at, and what is known of them while name servers are silent.
@Suite(.tags(.unit)) struct WebPushAddressTests {
  /// It takes connections and never says a word.
  @Test func `an address that is silent is left`() async throws {
    let site = try PushSite()
    try await site.withWebPush { _, service in
      let port = service.service.port
      let silent = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .bind(host: "127.0.0.2", port: port).get()
      let provider = try site.webPush(resolver: HostResolver { _, _ in ["127.0.0.2", "127.0.0.1"] })
      service.isKnown(as: "https://push.test:\(port)")
      let subscription = service.subscribe(
        "/push/x", subscription: TestSubscription(endpoint: "https://push.test:\(port)/push/x"))
      let message = try PushSite.webMessage(subscription)
      try await eventually("the first address is tried") {
        await provider.send(message, deadline: .now + .seconds(2)) == .temporary(.timedOut)
      }
      #expect(await provider.send(message, deadline: .patient).word == "delivered")
      try await silent.close().get()
    }
  }

  @Test func `a checked address serves while its name has no answer`() async throws {
    let answers = Answers(["1.1.1.1"])
    let services = WebPushServices(
      allowsPrivate: false, connectionsMax: 1, trust: [], resolver: HostResolver { _, _ in answers.current },
      addressLife: .zero, makeToken: { _ in SharedToken { .failure(.init(outcome: .temporary(.lost))) } })
    let endpoint = try #require(WebPushEndpoint("https://push.test/x"))
    let first = try await services.service(for: endpoint, until: .patient)
    for none in [nil, []] as [[String]?] {
      answers.become(none)
      services.failed(first, for: endpoint)
      let kept = try await services.service(for: endpoint, until: .patient)
      #expect(kept.client === first.client)
    }
  }

  @Test func `an address that could not be checked for a day serves no longer`() async throws {
    let answers = Answers(["1.1.1.1"])
    let services = WebPushServices(
      allowsPrivate: false, connectionsMax: 1, trust: [], resolver: HostResolver { _, _ in answers.current },
      addressLife: .zero, addressKept: .zero,
      makeToken: { _ in SharedToken { .failure(.init(outcome: .temporary(.lost))) } })
    let endpoint = try #require(WebPushEndpoint("https://push.test/x"))
    _ = try await services.service(for: endpoint, until: .patient)
    answers.become([])
    for _ in 0..<2 {
      await #expect(throws: WebPushServices.Refusal(outcome: .temporary(.unresolved))) {
        _ = try await services.service(for: endpoint, until: .patient)
      }
    }
  }

  /// The name itself hangs: one request waits for it, and others do not.
  @Test func `one request looks a known name up`() async throws {
    let asked = Mutex(0)
    let gate = Gate()
    defer { gate.open() }
    let services = WebPushServices(
      allowsPrivate: false, connectionsMax: 1, trust: [],
      resolver: HostResolver { _, limit in
        let count = asked.withLock { asked in
          asked += 1
          return asked
        }
        guard count > 1 else { return ["1.1.1.1", "2606:4700::1"] }
        // Some time is left for the push.
        #expect(limit < .seconds(2))
        await gate.wait()
        return []
      }, addressLife: .zero, makeToken: { _ in SharedToken { .failure(.init(outcome: .temporary(.lost))) } })
    let endpoint = try #require(WebPushEndpoint("https://push.test/x"))
    let first = try await services.service(for: endpoint, until: .patient)
    async let asking = services.service(for: endpoint, until: .patient)
    try await eventually("it is looked up") { asked.withLock { $0 } == 2 }
    for _ in 0..<3 { #expect(try await services.service(for: endpoint, until: .patient).client === first.client) }
    #expect(asked.withLock { $0 } == 2)
    gate.open()
    #expect(try await asking.client === first.client)
    // Without an answer its other address is tried where the first one fails, and the first one again behind it.
    for address in ["2606:4700::1", "1.1.1.1"] {
      services.failed(try await services.service(for: endpoint, until: .patient), for: endpoint)
      #expect(try await services.service(for: endpoint, until: .patient).address == address)
      // Not at each request.
      let count = asked.withLock { $0 }
      #expect(try await services.service(for: endpoint, until: .patient).address == address)
      #expect(asked.withLock { $0 } == count)
    }
  }

  @Test func `hosts that never answer stop no service that is known`() async throws {
    let gate = BlockingGate()
    defer { gate.open() }
    let resolver = HostResolver.threads { host in
      if host.hasPrefix("hangs") { gate.wait() }
      return ["1.1.1.1"]
    }
    let services = WebPushServices(
      allowsPrivate: false, connectionsMax: 1, trust: [], resolver: resolver, addressLife: .zero,
      makeToken: { _ in SharedToken { .failure(.init(outcome: .temporary(.lost))) } })
    let endpoint = try #require(WebPushEndpoint("https://push.test/x"))
    let first = try await services.service(for: endpoint, until: .patient)
    for number in 0..<64 { _ = await resolver.addresses("hangs\(number).test", .zero) }
    // The one that looks the name up, and those that come meanwhile.
    for _ in 0..<3 { #expect(try await services.service(for: endpoint, until: .patient).client === first.client) }
    let new = try #require(WebPushEndpoint("https://new.test/x"))
    await #expect(throws: WebPushServices.Refusal(outcome: .temporary(.resolverBusy))) {
      _ = try await services.service(for: new, until: .patient)
    }
    gate.open()
    try await eventually("the new one is known, too") {
      (try? await services.service(for: new, until: .patient)) != nil
    }
  }

  @Test func `a full resolver counts against no push service`() async throws {
    let site = try PushSite()
    try site.files.makeVAPIDKey()
    let provider = try site.webPush(resolver: HostResolver { _, _ in nil })
    let message = try PushSite.webMessage(TestSubscription(endpoint: "https://push.test/x"))
    let outcome = await provider.send(message, deadline: .patient)
    #expect(outcome == .temporary(.resolverBusy))
    #expect(PushBreaker.Verdict(outcome, isRushed: false) == .nothing)
  }
}

/// A resolver's answers, until a test says otherwise.
private final class Answers: Sendable {
  private let state: Mutex<[String]?>
  init(_ addresses: [String]?) { state = Mutex(addresses) }
  var current: [String]? { state.withLock { $0 } }
  func become(_ addresses: [String]?) { state.withLock { $0 = addresses } }
}
