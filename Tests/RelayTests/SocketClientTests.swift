import ChildProcesses
import Foundation
import RelayClient
import Synchronization
import TestSupport
import TestTags
import Testing

/// The client library's live connections, against a relay.
@Suite(.tags(.processes), .ownRelay) struct SocketClientTests {
  let nobody: RelayClient

  init() throws { nobody = try RelayClient(url: try suiteRelay().relay.url) }

  private func number() throws -> PhoneNumber { try #require(PhoneNumber(TestDevice.freshNumber())) }

  /// Two devices: one that sends, one that receives.
  private func pair() async throws -> (sender: RegisteredDevice, receiver: RegisteredDevice, to: PhoneNumber) {
    let to = try number()
    return (try await nobody.register(try number()), try await nobody.register(to), to)
  }

  /// The next `count` deliveries, as `body` treats each.
  private func take(
    _ count: Int, of live: LiveSession, _ body: @escaping @Sendable (Delivery) async throws -> Void
  ) async throws -> [IncomingMessage] {
    try await withDeadline(.seconds(60)) {
      var messages: [IncomingMessage] = []
      for try await delivery in live.deliveries {
        messages.append(try delivery.message)
        try await body(delivery)
        if messages.count == count { break }
      }
      return messages
    }
  }

  private func acknowledged(_ count: Int, of live: LiveSession) async throws -> [IncomingMessage] {
    try await take(count, of: live) { try await $0.acknowledge() }
  }

  private func untilEmpty(_ client: RelayClient) async throws {
    try await eventually("the mailbox is empty") { try await client.fetchMessages().messages.isEmpty }
  }

  private func options(_ change: (inout RelayClient.LiveOptions) -> Void) -> RelayClient.LiveOptions {
    var options = RelayClient.LiveOptions()
    change(&options)
    return options
  }

  @Test(arguments: [LiveDialect.protobuf, .json])
  func `waiting messages come first, then new ones, and acknowledged ones are gone`(_ dialect: LiveDialect) async throws
  {
    let (sender, receiver, to) = try await pair()
    try await sender.client.send([OutgoingMessage(body: [1])], to: to, timestamp: 11)
    let live = try await receiver.connect(options: options { $0.dialect = dialect })
    try await sender.client.send([OutgoingMessage(body: [2])], to: to, timestamp: 10)
    let messages = try await acknowledged(2, of: live)
    #expect(messages.map(\.body) == [[1], [2]] && messages.map(\.timestamp) == [11, 10])
    #expect(messages.map(\.source) == [try #require(sender.client.credentials).device, messages[0].source])
    try await untilEmpty(receiver.client)
    let receipts = try await eventually("the sender is told") {
      let messages = try await sender.client.fetchMessages().messages
      return messages.count == 2 ? messages : nil
    }
    #expect(receipts.map(\.type) == [5, 5])
    await live.close()
    #expect(await live.ended() == .closedHere)
    for try await _ in live.deliveries { Issue.record("a closed connection delivers nothing") }
  }

  @Test func `credentials may go in the header, and wrong ones are refused`() async throws {
    let (sender, receiver, to) = try await pair()
    let live = try await receiver.connect(options: options { $0.hasCredentialsInHeader = true })
    try await sender.client.send([OutgoingMessage(body: [3])], to: to)
    #expect(try await acknowledged(1, of: live).map(\.body) == [[3]])
    let key = try SignalingKey(receiver.attributes.signalingKey)
    let wrong = nobody.with(Credentials(Correspondent(to), password: "wrong"))
    for inHeader in [true, false] {
      let error = await #expect(throws: RelayClientError.self) {
        _ = try await wrong.connect(signalingKey: key, options: options { $0.hasCredentialsInHeader = inHeader })
      }
      #expect([401, 403].contains(error?.status ?? 0), "\(String(describing: error))")
    }
    await #expect(throws: RelayClientError.self) { _ = try await nobody.connect(signalingKey: key) }
  }

  @Test func `refused or unacknowledged messages come again on the next connection`() async throws {
    let (sender, receiver, to) = try await pair()
    for timestamp in 1...3 {
      try await sender.client.send([OutgoingMessage(body: [7])], to: to, timestamp: Int64(timestamp))
    }
    let first = try await receiver.connect()
    let once = try await take(3, of: first) { delivery in
      switch try delivery.message.timestamp {
      case 1: try await delivery.refuse()
      case 2: try await delivery.acknowledge()
      default: break
      }
    }
    #expect(once.map(\.timestamp) == [1, 2, 3])
    try await eventually("the acknowledged one is gone") {
      try await receiver.client.fetchMessages().messages.map(\.timestamp) == [1, 3]
    }
    await first.close()
    let second = try await receiver.connect()
    #expect(try await acknowledged(2, of: second).map(\.timestamp) == [1, 3])
    try await untilEmpty(receiver.client)
  }

  @Test func `a delivery that does not open is an error of its own, and can be acknowledged`() async throws {
    let (sender, receiver, to) = try await pair()
    let other = try SignalingKey(DeviceAttributes.random().signalingKey)
    let live = try await receiver.client.connect(signalingKey: other)
    for timestamp in 1...2 {
      try await sender.client.send([OutgoingMessage(body: [7])], to: to, timestamp: Int64(timestamp))
    }
    let errors = try await withDeadline(.seconds(60)) {
      var errors: [DeliveryError] = []
      for try await delivery in live.deliveries {
        do throws(DeliveryError) {
          _ = try delivery.message
        } catch {
          errors.append(error)
        }
        try await delivery.acknowledge()
        if errors.count == 2 { break }
      }
      return errors
    }
    #expect(errors == [.notAuthentic, .notAuthentic])
    try await untilEmpty(receiver.client)
  }

  @Test func `a newer connection ends the older one, which is told so`() async throws {
    let (_, receiver, _) = try await pair()
    let older = try await receiver.connect()
    let newer = try await receiver.connect()
    let end = try await withDeadline(.seconds(60)) { await older.ended() }
    #expect(end.isDisplaced && !end.isTemporary, "\(end)")
    await #expect(throws: end) { for try await _ in older.deliveries {} }
    #expect(try await newer.request("GET", "/v1/keepalive").status == 200)
  }

  @Test func `requests go over the connection, as many as there are`() async throws {
    let (sender, receiver, to) = try await pair()
    let live = try await sender.connect()
    let keys = try await live.request("GET", "/v1/keys")
    #expect(keys.status == 200 && String(decoding: keys.body, as: UTF8.self) == #"{"count":100}"#)
    #expect(try await live.client.preKeyCount() == 100)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for timestamp in 1...40 {
        group.addTask {
          try await live.client.send([OutgoingMessage(body: [7])], to: to, timestamp: Int64(timestamp))
        }
      }
      try await group.waitForAll()
    }
    #expect(Set(try await receiver.client.fetchMessages().messages.map(\.timestamp)) == Set(1...40))
    let mismatched = await #expect(throws: RelayClientError.self) {
      try await live.client.send([OutgoingMessage(deviceID: 2, body: [7])], to: to)
    }
    #expect(mismatched == .mismatchedDevices(missing: [1], extra: [2]))
    let unknown = await #expect(throws: RelayClientError.self) {
      try await live.client.send([OutgoingMessage(body: [7])], to: try number())
    }
    #expect(unknown?.status == 404)
    await live.close()
    let closed = await #expect(throws: RelayClientError.self) { _ = try await live.request("GET", "/v1/keys") }
    #expect(closed?.status == nil)
    let json = try await sender.connect(options: options { $0.dialect = .json })
    await #expect(throws: RelayClientError.self) { _ = try await json.request("GET", "/v1/keys") }
  }

  @Test func `a slow reader gets everything, in order, however little it lets wait`() async throws {
    let (sender, receiver, to) = try await pair()
    let body = [UInt8](repeating: 5, count: 20_000)
    for timestamp in 1...60 {
      try await sender.client.send([OutgoingMessage(body: body)], to: to, timestamp: Int64(timestamp))
    }
    let live = try await receiver.connect(
      options: options {
        $0.waitingMax = 2
        $0.waitingBytesMax = 30_000
      })
    let messages = try await take(60, of: live) { delivery in
      try await Task.sleep(for: .milliseconds(5))
      try await delivery.acknowledge()
    }
    #expect(messages.map(\.timestamp) == Array(1...60) && messages.allSatisfy { $0.body == body })
    try await untilEmpty(receiver.client)
  }

  /// - Returns: whether nothing of the connection is left in memory.
  private func isForgotten(afterClosing live: LiveSession) async throws -> @Sendable () -> Bool {
    let socket = Mirror(reflecting: live).children.first { $0.label == "socket" }?.value as? ClientSocket
    let found = try #require(socket)
    await live.close()
    return { [weak found] in found == nil }
  }

  @Test func `a connection that has ended leaves nothing in memory`() async throws {
    let (_, receiver, _) = try await pair()
    let isForgotten = try await isForgotten(afterClosing: try await receiver.connect())
    try await eventually("its socket is gone") { isForgotten() }
  }

  @Test func `an address is told, and what is handed over arrives there`() async throws {
    let (helper, _, _) = try await pair()
    let channel = try await nobody.awaitProvisioning()
    #expect(channel.address.utf8.count == 22)
    let body = (0..<3000).map { UInt8(truncatingIfNeeded: $0) }
    try await helper.client.provision(address: channel.address, body: body)
    #expect(try await withDeadline(.seconds(60)) { try await channel.message() } == body)
    #expect(try await withDeadline(.seconds(60)) { await channel.ended() }.code == 1001)
    let gone = await #expect(throws: RelayClientError.self) {
      try await helper.client.provision(address: channel.address, body: body)
    }
    #expect(gone?.status == 404)
    let malformed = await #expect(throws: RelayClientError.self) {
      try await helper.client.provision(address: "x/y", body: body)
    }
    #expect(malformed?.status == 400)
    let closed = try await nobody.awaitProvisioning()
    await closed.close()
    #expect(try await closed.message() == nil)
  }

  @Test func `over TLS the certificate is checked`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      let authority = try TestAuthority("first")
      try authority.leaf(relay: nil).write(chain: chain, key: key)
      let relay = try await site.serve(["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key])
      for host in ["127.0.0.1", "localhost"] { try await converse("https://\(host):\(relay.clientPort)", authority) }
      var others = RelayClient.Options()
      others.trustRootsPEM = try TestAuthority("second").pem
      let stranger = try RelayClient(url: "https://127.0.0.1:\(relay.clientPort)", options: others)
      await #expect(throws: RelayClientError.self) { _ = try await stranger.awaitProvisioning() }
      #expect(await relay.terminate() == .code(0))
    }
  }

  private func converse(_ url: String, _ authority: TestAuthority) async throws {
    var trusting = RelayClient.Options()
    trusting.trustRootsPEM = try authority.pem
    let nobody = try RelayClient(url: url, options: trusting)
    let to = try number()
    let (sender, receiver) = (try await nobody.register(try number()), try await nobody.register(to))
    let live = try await receiver.connect()
    try await sender.client.send([OutgoingMessage(body: [9])], to: to)
    #expect(try await acknowledged(1, of: live).map(\.body) == [[9]])
    await live.close()
  }

  @Test func `a relay that is not there, and one that stops, are told apart`() async throws {
    let port = try Loopback.freePorts(1)[0]
    let away = try RelayClient(url: "http://127.0.0.1:\(port)")
    let error = await #expect(throws: RelayClientError.self) { _ = try await away.awaitProvisioning() }
    guard case .unreachable = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    try await RelayOperator.with(settings: ["RELAY_DRAIN_SECONDS": "0"]) { site in
      let relay = try await site.serve()
      let live = try await RelayClient(url: relay.url).register(try number()).connect()
      let end = Task { await live.ended() }
      #expect(await relay.terminate(within: .seconds(60)) == .code(0))
      let reason = await end.value
      #expect(reason.isRestart, "\(reason)")
    }
  }
}
