import Logging
import RelayCore
import ServiceLifecycle
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// Receipts for senders at peers, when the process is told to stop.
@Suite(.tags(.unit)) struct ReceiptForwarderTests {
  private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

  @Test func `a process that stops first sends the receipts it has`() async throws {
    let peer = SlowPeer()
    let forwarder = ReceiptForwarder(courier: peer, logger: logger)
    let relay = try #require(RelayName("beta"))
    for time: Int64 in 1...300 { forwarder.send(try receipt(time), to: relay) }
    let group = ServiceGroup(services: [forwarder], logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      try await eventually("the peer has some of them") { peer.taken.count > 0 }
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
    }
    #expect(peer.taken == Set(1...300))
  }

  /// The one takes nothing, with more waiting for it than it has places.
  @Test func `a peer that is slow holds up no receipt for another`() async throws {
    let peers = StuckPeer(try #require(RelayName("stuck")))
    defer { peers.gate.open() }
    let forwarder = ReceiptForwarder(courier: peers, logger: logger)
    let beta = try #require(RelayName("beta"))
    for time: Int64 in 1...6000 { forwarder.send(try receipt(time), to: peers.stuck) }
    for time: Int64 in 1...300 { forwarder.send(try receipt(time), to: beta) }
    try await eventually("the other has all of its own") { peers.taken == Set(1...300) }
  }

  private func receipt(_ time: Int64) throws -> DeliveryReceipt {
    let sender = try #require(AccountNumber(e164: "+14152222222"))
    let recipient = try #require(AccountNumber(e164: "+14153333333"))
    let acknowledged = Envelope(
      destination: DeviceAddress(recipient, .master), type: .ciphertext, source: DeviceAddress(sender, .master),
      relay: RelayName("beta"), timestamp: Timestamp(millis: time), message: [1], content: nil,
      fingerprint: Fingerprint(high: 1, low: UInt64(time)))
    return try #require(DeliveryReceipt(for: acknowledged))
  }
}

/// Takes a receipt in some milliseconds, and nothing else.
private final class SlowPeer: ReceiptsAlone {
  private let times = Mutex<Set<Int64>>([])
  var taken: Set<Int64> { times.withLock(\.self) }

  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    do { try await Task.sleep(for: .milliseconds(5)) } catch { throw Problem(.unavailable) }
    _ = times.withLock { $0.insert(timestamp.millis) }
  }
}

/// Peers of which one answers when the gate opens.
private final class StuckPeer: ReceiptsAlone {
  let stuck: RelayName
  let gate = Gate()
  private let times = Mutex<Set<Int64>>([])
  var taken: Set<Int64> { times.withLock(\.self) }

  init(_ stuck: RelayName) { self.stuck = stuck }

  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    if relay == stuck { return await gate.wait() }
    _ = times.withLock { $0.insert(timestamp.millis) }
  }
}

private protocol ReceiptsAlone: Courier {}

extension ReceiptsAlone {
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] { throw Problem(.notFound) }
  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    throw Problem(.notFound)
  }
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    throw Problem(.notFound)
  }
}
