import RelayCore
import RelayHTTP
import RelayWork
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Push

/// No request goes where a stranger's URL must not lead.
@Suite(.tags(.unit)) struct PrivateAddressTests {
  private func message(to endpoint: String) throws -> PushMessage {
    try PushSite.webMessage(TestSubscription(endpoint: endpoint))
  }

  @Test func `a private address is asked nothing, in whatever form`() async throws {
    let site = try PushSite()
    try await site.withWebPush { _, service in
      let provider = try site.webPush(allowsPrivate: false)
      let port = service.service.port
      for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "[::1]", "[::ffff:127.0.0.1]"] {
        let outcome = await provider.send(try message(to: "https://\(host):\(port)/push/x"), deadline: .patient)
        // Some systems do not read the odd forms at all.
        #expect(
          [PushOutcome.refused(.privateAddress), .temporary(.unresolved)].contains(outcome), "\(host): \(outcome)")
      }
      #expect(service.service.acceptedCount == 0)
      let plain = await provider.send(try message(to: "http://1.1.1.1/x"), deadline: .patient)
      #expect(plain == .refused(.notSecure))
    }
  }

  @Test func `a name with one private address is asked nothing`() async throws {
    let site = try PushSite()
    try site.files.makeVAPIDKey()
    let provider = try site.webPush(
      allowsPrivate: false, resolver: HostResolver { _, _ in ["1.1.1.1", "2606:4700::1", "10.0.0.1"] })
    let outcome = await provider.send(try message(to: "https://push.test/x"), deadline: .patient)
    #expect(outcome == .refused(.privateAddress))
  }

  @Test func `a name without an address is temporary`() async throws {
    let site = try PushSite()
    try site.files.makeVAPIDKey()
    let provider = try site.webPush(resolver: HostResolver { _, _ in [] })
    let outcome = await provider.send(try message(to: "https://push.test/x"), deadline: .patient)
    #expect(outcome == .temporary(.unresolved))
  }

  /// The name is known to nobody but the test's resolver: the connection cannot have been made by another look-up.
  @Test func `connections go to the address that was checked`() async throws {
    let site = try PushSite()
    try await site.withWebPush { _, service in
      let asked = Mutex(0)
      let counting = HostResolver { host, _ in
        asked.withLock { $0 += host == "push.test" ? 1 : 100 }
        return ["127.0.0.1"]
      }
      let provider = try site.webPush(resolver: counting)
      service.isKnown(as: "https://push.test:\(service.service.port)")
      let path = "/push/pinned"
      let subscription = service.subscribe(
        path, subscription: TestSubscription(endpoint: "https://push.test:\(service.service.port)\(path)"))
      for _ in 0..<3 {
        #expect(await provider.send(try PushSite.webMessage(subscription), deadline: .patient).word == "delivered")
      }
      #expect(asked.withLock { $0 } == 1)
      #expect(service.messages.count == 3)
      #expect(service.faults == [])
    }
  }

  @Test func `a name that turns private is given up`() async throws {
    let addresses = Mutex(["1.1.1.1"])
    let services = WebPushServices(
      allowsPrivate: false, connectionsMax: 1, trust: [], resolver: HostResolver { _, _ in addresses.withLock { $0 } },
      addressLife: .zero, makeToken: { _ in SharedToken { .failure(.init(outcome: .temporary(.lost))) } })
    let endpoint = try #require(WebPushEndpoint("https://push.test/x"))
    let first = try await services.service(for: endpoint, until: .patient)
    #expect(first.address == "1.1.1.1")
    // Still the same, though no more the best.
    addresses.withLock { $0 = ["2606:4700::1", "1.1.1.1"] }
    let second = try await services.service(for: endpoint, until: .patient)
    #expect(second.client === first.client)
    // No service answers there: the next one.
    services.failed(second, for: endpoint)
    let third = try await services.service(for: endpoint, until: .patient)
    #expect(third.address == "2606:4700::1")
    addresses.withLock { $0 = ["127.0.0.1"] }
    await #expect(throws: WebPushServices.Refusal(outcome: .refused(.privateAddress))) {
      _ = try await services.service(for: endpoint, until: .patient)
    }
  }

  @Test func `the system's names are looked up`() async {
    let addresses = await HostResolver.system().addresses("localhost", .seconds(60))
    #expect(addresses?.contains("127.0.0.1") == true || addresses?.contains("::1") == true)
    let none = await HostResolver.system().addresses("push.invalid", .seconds(60))
    #expect(none == [])
  }
}
