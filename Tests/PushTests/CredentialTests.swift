import Crypto
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Keys and certificates: which are taken, and how they are replaced under a running process.
@Suite(.tags(.unit)) struct CredentialTests {
  @Test func `a certificate proves us and names the topic`() async throws {
    let site = try PushSite()
    let apns = try await FakeAPNs(site.files, key: nil)
    try site.files.makeCertificate(until: Date(timeIntervalSince1970: 4_000_000_000))
    let provider = try APNsProvider(
      APNsSettings(
        authentication: .certificate(file: site.files.certificate, topic: nil), endpoint: apns.url,
        trust: site.files.trust),
      clock: site.clock.wall, logger: site.log.logger)
    #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
    #expect(apns.requests.first?.headers["apns-topic"] == "com.example.uid.topic")
    #expect(apns.requests.first?.headers["authorization"] == nil)
    #expect(apns.faults == [])
    #expect(provider.credentialsExpire == Timestamp(millis: 4_000_000_000_000))
    try await apns.close()
  }

  @Test func `a configured topic goes before the certificates`() async throws {
    let site = try PushSite()
    let apns = try await FakeAPNs(site.files, key: nil)
    try site.files.makeCertificate()
    let provider = try APNsProvider(
      APNsSettings(
        authentication: .certificate(file: site.files.certificate, topic: "com.example.uid.topic.voip"),
        endpoint: apns.url, trust: site.files.trust),
      clock: site.clock.wall, logger: site.log.logger)
    #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
    #expect(apns.requests.first?.headers["apns-topic"] == "com.example.uid.topic.voip")
    try await apns.close()
  }

  @Test func `a certificate without a topic is refused`() throws {
    let site = try PushSite()
    try site.files.makeCertificate(userID: nil)
    let settings = APNsSettings(authentication: .certificate(file: site.files.certificate, topic: nil))
    #expect(throws: PushCredentialError.self) {
      _ = try APNsProvider(settings, clock: site.clock.wall, logger: site.log.logger)
    }
  }

  @Test func `a fault is named without the key`() throws {
    let site = try PushSite()
    let secret = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg"
    for (text, reason) in [
      ("nothing", "no private key in PEM"),
      ("-----BEGIN PRIVATE KEY-----\n\(secret)\n-----END PRIVATE KEY-----\n", "no key of the curve P-256"),
    ] {
      try site.files.write(text, to: "apns.p8")
      let error = keyError(site)
      #expect(error?.reason == reason)
      #expect(error?.file == site.files.apnsKey)
      #expect(!"\(String(describing: error))".contains(secret))
    }
    try FileManager.default.removeItem(atPath: site.files.apnsKey)
    #expect(keyError(site)?.reason == "No such file or directory")
  }

  private func keyError(_ site: PushSite) -> PushCredentialError? {
    do throws(PushCredentialError) {
      _ = try CredentialFile.signingKey(site.files.apnsKey)
      return nil
    } catch {
      return error
    }
  }

  @Test func `a key behind its parameters is found`() throws {
    let site = try PushSite()
    let key = P256.Signing.PrivateKey()
    try site.files.write(
      "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n\(key.pemRepresentation)\n",
      to: "vapid.pem")
    let read = try CredentialFile.signingKey(site.files.vapidKey)
    #expect(read.rawRepresentation == key.rawRepresentation)
  }

  @Test func `a new key is taken up without a restart`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      let running = Task { try await provider.run() }
      apns.trust(try site.files.makeAPNsKey())
      try await eventually("the new key is used") {
        _ = await provider.send(PushSite.apnsMessage(), deadline: .patient)
        return apns.tokens.count == 2
      }
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      running.cancel()
      // It ends by cancellation.
      _ = await running.result
    }
  }

  @Test func `a bad file is reported once, and the former key stays`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      try site.files.write("half a key", to: "apns.p8")
      #expect(provider.reload() == false)
      #expect(provider.reload() == false)
      #expect(site.log.count("the former content stays") == 1)
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      #expect(apns.tokens.count == 1)
      #expect(apns.faults == [])
    }
  }

  @Test func `a file that was only touched brings no new token`() async throws {
    let site = try PushSite()
    try await site.withAPNs { provider, apns in
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      let text = try String(contentsOfFile: site.files.apnsKey, encoding: .utf8)
      try site.files.write(text, to: "apns.p8")
      provider.reload()
      #expect(await provider.send(PushSite.apnsMessage(), deadline: .patient).word == "delivered")
      #expect(apns.tokens.count == 1)
      #expect(apns.service.acceptedCount == 1)
    }
  }
}
