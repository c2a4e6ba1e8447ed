import Crypto
import NIOCore
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// For whom a peer may speak.
@Suite(.tags(.stores)) struct SourceTests {
  private let message = "/v1/federation/messages/+14155550177/1/+14155550100"
  private let receipt = "/v1/receipt/+14155550177/1/+14155550100/1"

  @Test func `a source that only others list is refused`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      listing.claim(try token(of: "+14155550177"), by: [try name("gamma")])
      let answer = try await client.send(.PUT, message, body: #"{"messages":[]}"#)
      #expect(answer.status == 403 && answer.text.hasPrefix("source-refused"))
      let receipted = try await client.send(.PUT, receipt)
      #expect(receipted.status == 403 && receipted.text.hasPrefix("source-refused"))
      #expect(relay.intake.calls.isEmpty && relay.intake.receipts.isEmpty)
      // Numbers that no peer lists, or that this peer listed first, are its own.
      #expect(try await client.send(.PUT, "/v1/receipt/+14155550178/1/+14155550100/1").status == 200)
      listing.claim(try token(of: "+14155550179"), by: [try name("beta"), try name("gamma")])
      #expect(try await client.send(.PUT, "/v1/receipt/+14155550179/1/+14155550100/1").status == 200)
    }
  }

  @Test func `a number that moves is served by its new peer soon`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { _, client in
      listing.claim(try token(of: "+14155550177"), by: [try name("gamma")])
      #expect(try await client.send(.PUT, receipt).status == 403)
      // It says so, too: for as long as the former relay does, that wins nothing.
      listing.claim(try token(of: "+14155550177"), by: [try name("gamma"), try name("beta")])
      try await Task.sleep(for: VerdictCache.refusedLife)
      #expect(try await client.send(.PUT, receipt).status == 403)
      listing.claim(try token(of: "+14155550177"), by: [try name("beta")])
      try await eventually("beta alone lists it") { try await client.send(.PUT, receipt).status == 200 }
    }
  }

  @Test func `a conversation asks the store once`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      #expect(try await client.send(.PUT, receipt).status == 200)
      let asked = listing.claimantsAsked
      for _ in 1...20 { #expect(try await client.send(.PUT, receipt).status == 200) }
      #expect(listing.claimantsAsked == asked)
      // A new peer may have brought other claims.
      listing.claim(try token(of: "+14155550177"), by: [try name("gamma")])
      try await save(try TestAuthority("gamma"), as: "gamma", at: relay)
      try await eventually("the verdict is asked for anew") { try await client.send(.PUT, receipt).status == 403 }
    }
  }

  @Test func `without an answer, no peer is believed`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      listing.isAway(true)
      let refused = try await client.send(.PUT, receipt)
      #expect(refused.status == 503)
      #expect(relay.intake.receipts.isEmpty)
      listing.isAway(false)
      #expect(try await client.send(.PUT, receipt).status == 200)
    }
  }

  /// Against the real store: what a peer's listing brought decides.
  @Test func `a listing protects its accounts`() async throws {
    try await withPeerClient { relay, client in
      try await save(try TestAuthority("gamma"), as: "gamma", at: relay)
      let listed = ListedAccount(
        token: try token(of: "+14155550177"), isInactive: false, supportsSMS: false, voice: false)
      try await relay.storage.mergeContacts([listed], of: name("gamma"), pass: 1)
      try await eventually("the claim is seen") { try await client.send(.PUT, receipt).status == 403 }
      try await withPeer("delta", of: relay) { delta in
        let refused = try await delta.send(.PUT, message, body: #"{"messages":[]}"#)
        #expect(refused.status == 403)
      }
      // Listing it as well wins nothing, whatever the peer's name.
      try await Task.sleep(for: .milliseconds(5))
      try await relay.storage.mergeContacts([listed], of: name("beta"), pass: 1)
      try await Task.sleep(for: VerdictCache.refusedLife)
      #expect(try await client.send(.PUT, receipt).status == 403)
      // The claims of a peer that is suspended protect nothing.
      #expect(try await relay.storage.setPeerState(.suspended, of: name("gamma")))
      await relay.coordination.publish(.peersChanged)
      try await eventually("the claim is gone") { try await client.send(.PUT, receipt).status == 200 }
    }
  }

  @Test func `verdicts are forgotten in time and in number`() throws {
    let start = ContinuousClock.now
    let (beta, gamma) = (try name("beta"), try name("gamma"))
    let source = try number("+14155550177")
    var cache = VerdictCache(max: 10)
    cache.remember(source, beta, .allowed, from: cache.generation, at: start)
    cache.remember(source, gamma, .refused, from: cache.generation, at: start)
    #expect(cache.find(source, beta, at: start + .seconds(59)) == .allowed)
    #expect(cache.find(source, beta, at: start + .seconds(60)) == nil)
    #expect(cache.find(source, gamma, at: start + .milliseconds(1999)) == .refused)
    #expect(cache.find(source, gamma, at: start + .seconds(2)) == nil)
    let former = cache.generation
    cache.removeAll()
    #expect(cache.find(source, beta, at: start) == nil)
    // An answer that was asked for before the peers changed says nothing.
    cache.remember(source, beta, .allowed, from: former, at: start)
    #expect(cache.find(source, beta, at: start) == nil)
    for digits in 0..<1000 {
      let other = try #require(AccountNumber(digits: 14_155_550_000 + Int64(digits)))
      cache.remember(other, beta, .allowed, from: cache.generation, at: start)
      #expect(cache.count <= 10)
    }
    #expect(cache.find(try #require(AccountNumber(digits: 14_155_550_999)), beta, at: start) == .allowed)
  }

  private func token(of number: String) throws -> ContactToken {
    try #require(ContactToken(bytes: Array(Insecure.SHA1.hash(data: Array(number.utf8)))[..<10]))
  }
}
