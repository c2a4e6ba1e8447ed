// How a device that is about to be linked hears what another device of the account has to tell it (reference 1.14).

import Foundation
import RelayCore
import SwiftProtobuf
import WireMessages

/// Waits at an address for one message of another device, to be linked by it (reference 1.14).
///
/// Any account that knows the address may send the message. So show the address, together with a public key to
/// encrypt for, to the other device alone. The channel closes when nobody holds it any more. It is safe to use from
/// many tasks.
public final class ProvisioningChannel: Sendable {
  /// The address for ``RelayClient/provision(address:body:)``: 22 characters of the URL-safe alphabet.
  public let address: String
  private let socket: ClientSocket
  private let receiver: ProvisioningReceiver

  fileprivate init(_ address: String, _ socket: ClientSocket, _ receiver: ProvisioningReceiver) {
    self.address = address
    self.socket = socket
    self.receiver = receiver
  }

  deinit { socket.beginClosing() }

  /// Waits for the message. The relay closes the channel behind it.
  /// - Returns: the bytes that the other device sent, which it has encrypted; nil when this client has closed the
  ///   channel or the task is cancelled.
  /// - Throws: any other end of the channel, also when the message was taken before.
  public func message() async throws(ConnectionEnd) -> [UInt8]? { try await receiver.messages.next() }

  /// Closes the channel, and waits until that is done: five seconds at most.
  public func close() async { await socket.close() }

  /// Waits for the end of the channel.
  /// - Returns: the reason; `.closedByRelay` with 1001 behind the message.
  public func ended() async -> ConnectionEnd { await socket.ended() }
}

extension RelayClient {
  /// Opens a channel on which another device can hand this one the code and keys of a link (reference 1.14).
  ///
  /// No credentials are needed or sent. Afterwards call ``link(to:code:attributes:name:)``.
  /// - Parameter keepAlive: how often a ping is sent. The relay closes the channel after 60 s without a sign of life.
  /// - Returns: a channel that has its address.
  /// - Throws: `.refused`: 413 too many channels, 503 the relay stops. `.unreachable` when the connection ends before
  ///   the relay has told an address; `.timedOut` when it tells none in time.
  public func awaitProvisioning(keepAlive: Duration = .seconds(15)) async throws(RelayClientError)
    -> ProvisioningChannel
  {
    let receiver = ProvisioningReceiver()
    var request = ClientSocketOpener.Request(path: "/v1/websocket/provisioning/")
    request.keepAlive = keepAlive
    let socket = try await open(request, receiver)
    do {
      let address = try await withDeadline(connections.requestTimeout) { try await receiver.addresses.next() }
      guard let address else { throw CancellationError() }
      return ProvisioningChannel(address, socket, receiver)
    } catch {
      socket.beginClosing()
      switch error {
      case let error as RelayClientError: throw error
      case let end as ConnectionEnd: throw end.failure
      default: throw .unreachable(reason: String(describing: error))
      }
    }
  }

  /// Hands a message to the device that waits at `address` (reference 1.14).
  /// - Parameters:
  ///   - address: 22 characters, as that device shows them.
  ///   - body: at most 16 KiB, encrypted for that device: the relay can read it otherwise.
  /// - Throws: `.refused`: 400 the address is ill-formed; 404 nobody waits there; 413 too many messages, or too large
  ///   a one.
  public func provision(address: String, body: [UInt8]) async throws(RelayClientError) {
    guard let path = address.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed.subtracting(["/"])) else {
      throw .invalidArgument("an address has 22 characters")
    }
    let request = try RelayRequest(
      .put, "/v1/provisioning/\(path)", body: ["body": Base64.encode(body, padded: true)])
    _ = try await send(request)
  }
}

/// Sorts what comes over a provisioning socket: the address, then the message.
final class ProvisioningReceiver: ClientSocketReceiver {
  let addresses = Inbox<String>(bounds: .init(count: 4, bytes: 4 << 10))
  let messages = Inbox<[UInt8]>(bounds: .init(count: 4, bytes: 64 << 10))

  func received(_ message: ClientSocket.Message) -> ClientSocketReaction {
    switch LiveDialect.protobuf.read(message) {
    case .request(let id, "PUT", "/v1/address", let body):
      guard let uuid = try? Textsecure_ProvisioningUuid(serializedBytes: body), !uuid.uuid.isEmpty else {
        return .fail(reason: "it told no address")
      }
      return reaction(addresses.offer(uuid.uuid, bytes: uuid.uuid.utf8.count), to: id)
    case .request(let id, "PUT", "/v1/message", let body):
      return reaction(messages.offer(body, bytes: body.count), to: id)
    case .malformed: return .fail(reason: "it sent a message that cannot be read")
    case .request, .delivery, .answer, .nothing: return .goOn
    }
  }

  func ended(_ end: ConnectionEnd) {
    addresses.finish(end)
    messages.finish(end)
  }

  private func reaction(_ hasRoom: Bool, to id: UInt64?) -> ClientSocketReaction {
    guard hasRoom else { return .fail(reason: "it sent more than one address and message") }
    return id.map { .answer(LiveDialect.answer(id: $0, status: 200)) } ?? .goOn
  }
}
