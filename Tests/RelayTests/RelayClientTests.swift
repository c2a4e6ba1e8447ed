import RelayClient
import TestSupport
import TestTags
import Testing

/// The client library's later half, against a relay: signed keys, devices, receipts, attachments.
@Suite(.tags(.processes), .ownRelay) struct RelayClientTests {
  let nobody: RelayClient

  init() throws { nobody = try RelayClient(url: try suiteRelay().relay.url) }

  private func number() throws -> PhoneNumber { try #require(PhoneNumber(TestDevice.freshNumber())) }

  private func publicKey() throws -> String { try IdentityKeys().publicKey }

  private func signed(_ id: Int64, by identity: IdentityKeys) throws -> SignedPublicPreKey {
    let key = try publicKey()
    return SignedPublicPreKey(keyID: id, publicKey: key, signature: try identity.signature(of: key))
  }

  @Test func `signed keys are uploaded, drawn and replaced`() async throws {
    let (owner, caller) = (try await nobody.register(try number()), try await nobody.register(try number()))
    let ownerNumber = try #require(owner.client.credentials).device.number
    let identity = try IdentityKeys()
    #expect(try await owner.client.signedPreKey() == nil)
    let bundle = SignedPreKeyBundle(
      identityKey: identity.publicKey, oneTimeKeys: [PublicPreKey(keyID: 0, publicKey: try publicKey())],
      lastResort: PublicPreKey(keyID: 7, publicKey: try publicKey()), signed: try signed(1, by: identity))
    try await owner.client.upload(bundle)
    for preKey in [bundle.oneTimeKeys[0], bundle.lastResort] {
      let drawn = try await caller.client.drawKeys(of: ownerNumber)
      #expect(drawn.map(\.identityKey) == [identity.publicKey] && drawn.map(\.deviceID) == [1])
      #expect(drawn.map(\.registrationID) == [owner.attributes.registrationID])
      #expect(drawn.map(\.preKey) == [preKey] && drawn.map(\.signed) == [bundle.signed])
    }
    let other = try signed(2, by: identity)
    try await owner.client.replaceSignedPreKey(with: other)
    #expect(try await owner.client.signedPreKey() == other)
    let forged = try signed(3, by: try IdentityKeys())
    await #expect(throws: RelayClientError.self) { try await owner.client.replaceSignedPreKey(with: forged) }
  }

  @Test func `a device is linked, listed and removed`() async throws {
    let first = try await nobody.register(try number()).client
    let number = try #require(first.credentials).device.number
    let code = try await first.requestLinkingCode()
    let linked = try await nobody.link(to: number, code: code, attributes: .random(), name: "Tablet")
    #expect(linked.credentials?.device.deviceID == 2)
    #expect(try await linked.preKeyCount() == 0)
    let devices = try await linked.devices()
    #expect(devices.map(\.id) == [1, 2] && devices.map(\.name) == [nil, "Tablet"])
    #expect(devices.allSatisfy { abs($0.created - RelayClient.now()) < 86_400_000 })
    await #expect(throws: RelayClientError.self) { try await linked.removeDevice(2) }
    try await first.removeDevice(2)
    #expect(try await first.devices().map(\.id) == [1])
    await #expect(throws: RelayClientError.self) { try await linked.devices() }
  }

  @Test func `a receipt tells the sender`() async throws {
    let (sender, recipient) = (
      try await nobody.register(try number()).client, try await nobody.register(try number()).client
    )
    let (from, to) = (try #require(sender.credentials).device.number, try #require(recipient.credentials).device.number)
    await #expect(throws: RelayClientError.self) { try await recipient.sendReceipt(for: 5, to: from) }
    try await sender.send([OutgoingMessage(body: [1, 2, 3])], to: to, timestamp: 5)
    try await recipient.sendReceipt(for: 5, to: from)
    let receipts = try await sender.fetchMessages().messages
    #expect(receipts.map(\.type) == [5] && receipts.map(\.timestamp) == [5] && receipts.map(\.body) == [[]])
  }

  @Test func `an attachment goes up once and comes down whole`() async throws {
    let (sender, recipient) = (
      try await nobody.register(try number()).client, try await nobody.register(try number()).client
    )
    let blob = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
    let slot = try await sender.newAttachment()
    #expect("\(slot)" == "<attachment>")
    try await sender.upload(blob, to: slot)
    #expect(try await recipient.attachment(slot.id, bytesMax: blob.count) == blob)
    let again = await #expect(throws: RelayClientError.self) { try await sender.upload([1], to: slot) }
    #expect(again?.status == 409)
    let tooLarge = await #expect(throws: RelayClientError.self) {
      try await recipient.attachment(slot.id, bytesMax: 1000)
    }
    #expect(tooLarge?.status == 200)
    let missing = await #expect(throws: RelayClientError.self) { try await recipient.attachment(1, bytesMax: 1000) }
    #expect(missing?.status == 404)
  }
}
