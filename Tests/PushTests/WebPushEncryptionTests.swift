import Crypto
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// The encryption of WebPush, and the URLs that it goes to.
@Suite(.tags(.unit)) struct WebPushEncryptionTests {
  @Test func `every vector holds`() throws {
    for item in try VectorFile.items("webpush_encryption") {
      func bytes(_ name: String) throws -> [UInt8] {
        let text = try #require(item[name] as? String)
        return try #require(Base64.decode(text))
      }
      let (publicKey, secret) = (try bytes("p256dh"), try bytes("auth"))
      let subscription = try #require(
        WebPushSubscription(endpoint: "https://push.example/x", publicKey: publicKey, authentication: secret))
      let text = try #require(item["plaintext_utf8"] as? String)
      let plain = Array(text.utf8)
      let body = try WebPushEncryption.encrypt(
        plain, for: subscription,
        with: WebPushFreshness(
          sender: P256.KeyAgreement.PrivateKey(rawRepresentation: try bytes("sender_private")),
          salt: try bytes("salt")))
      let expected = try bytes("body")
      #expect(body == expected)
      #expect(body.count == item["body_bytes"] as? Int)
      let receiver = TestSubscription(
        endpoint: "https://push.example/x",
        key: try P256.KeyAgreement.PrivateKey(rawRepresentation: try bytes("receiver_private")),
        secret: secret)
      #expect(try receiver.decrypt(body) == plain)
    }
  }

  @Test func `the longest text fills a record and no two are alike`() throws {
    let receiver = TestSubscription(endpoint: "https://push.example/x")
    let subscription = try #require(
      WebPushSubscription(endpoint: receiver.endpoint, p256dh: receiver.p256dh, auth: receiver.auth))
    let plain = [UInt8](repeating: 7, count: WebPushProvider.payloadMax)
    let (first, second) = (
      try WebPushEncryption.encrypt(plain, for: subscription), try WebPushEncryption.encrypt(plain, for: subscription)
    )
    #expect(first.count == 4096)
    #expect(try receiver.decrypt(first) == plain)
    // Salt, key and all that follows.
    #expect(first[..<16] != second[..<16])
    #expect(first[21..<86] != second[21..<86])
  }

  /// Keys without a compact form, half of all, are as good as others.
  @Test func `keys are fresh, and any browser agrees on them`() throws {
    let receiver = TestSubscription(endpoint: "https://push.example/x")
    let subscription = try #require(
      WebPushSubscription(endpoint: receiver.endpoint, p256dh: receiver.p256dh, auth: receiver.auth))
    var seen: Set<[UInt8]> = []
    for number in 0..<64 {
      let fresh = WebPushFreshness.random()
      #expect(fresh.salt.count == 16)
      #expect(seen.insert(fresh.salt).inserted && seen.insert(Array(fresh.sender.rawRepresentation)).inserted)
      let plain = Array("message \(number)".utf8)
      #expect(try receiver.decrypt(WebPushEncryption.encrypt(plain, for: subscription, with: fresh)) == plain)
    }
  }

  @Test func `a malformed subscription is none`() {
    let good = TestSubscription(endpoint: "https://push.example/x")
    #expect(WebPushSubscription(endpoint: good.endpoint, p256dh: good.p256dh, auth: good.auth) != nil)
    #expect(WebPushSubscription(endpoint: good.endpoint, p256dh: "AAAA", auth: good.auth) == nil)
    #expect(WebPushSubscription(endpoint: good.endpoint, p256dh: "!", auth: good.auth) == nil)
    // A point that is not on the curve.
    let off = Base64.encodeURLSafe([4] + [UInt8](repeating: 1, count: 64))
    #expect(WebPushSubscription(endpoint: good.endpoint, p256dh: off, auth: good.auth) == nil)
    #expect(WebPushSubscription(endpoint: good.endpoint, p256dh: good.p256dh, auth: "AAAA") == nil)
    #expect(WebPushSubscription(endpoint: "push.example/x", p256dh: good.p256dh, auth: good.auth) == nil)
  }

  @Test func `endpoints are read strictly`() {
    let good = [
      ("https://Push.Example/a?b=c#d", "https://push.example", "/a?b=c"),
      ("HTTPS://push.example", "https://push.example", "/"),
      ("https://push.example:8443/", "https://push.example:8443", "/"),
      ("http://127.0.0.1?x", "http://127.0.0.1", "/?x"),
      ("https://[2606:4700::1]:443/x", "https://[2606:4700::1]:443", "/x"),
    ]
    for (text, origin, path) in good {
      let endpoint = WebPushEndpoint(text)
      #expect(endpoint?.origin == origin, "\(text)")
      #expect(endpoint?.path == path, "\(text)")
      #expect(endpoint.flatMap { WebPushEndpoint($0.url) } == endpoint, "\(text)")
    }
    for text in [
      "", "push.example", "ftp://push.example/", "https://", "https:///x", "https://user@push.example/",
      "https://user:word@push.example/", "https://push.example:0/", "https://push.example:99999/",
      "https://push.example:/", "https://push.example:80:80/", "https://push%2eexample/", "https://push.ex ample/",
      "https://push.example/\r\nX: y", "https://püsh.example/", "https://push.example\\@127.0.0.1/", "https://[::1/",
      "https://[127.0.0.1]/", "https://[fe80::1%25eth0]/",
      "https://push.example/\(String(repeating: "x", count: 2048))",
    ] { #expect(WebPushEndpoint(text) == nil, "\(text)") }
  }
}
