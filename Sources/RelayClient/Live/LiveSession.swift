import Foundation

/// A device's live connection to its relay: messages come as they arrive, without being asked for.
///
/// What waits in the mailbox comes first, then everything new, in the order in which the relay accepted it. A message
/// stays in the mailbox until it is acknowledged: what was not comes again on the next connection, so whoever receives
/// tells repetitions by source and timestamp. A newer connection of the same device ends this one.
///
/// It does not connect again by itself:
///
///     var backoff = Backoff()
///     while !Task.isCancelled {
///       do {
///         let live = try await client.connect(signalingKey: key)
///         for try await delivery in live.deliveries {
///           backoff.reset()
///           try store(delivery.message)
///           try await delivery.acknowledge()
///         }
///       } catch let end as ConnectionEnd where !end.isTemporary {
///         break
///       } catch {}
///       try await Task.sleep(for: backoff.next())
///     }
///
/// Safe to use from many tasks. It closes when nobody holds it, its deliveries, or its client any more.
public final class LiveSession: RequestCarrier {
  /// The same relay and device: its requests go over this connection. Attachments, and what needs no credentials, do not.
  public var client: RelayClient {
    RelayClient(url: relay.url, credentials: relay.credentials, connections: relay.connections, carrier: self)
  }

  private let relay: RelayClient
  private let socket: ClientSocket
  private let receiver: LiveReceiver
  private let key: SignalingKey

  init(_ relay: RelayClient, _ socket: ClientSocket, _ receiver: LiveReceiver, _ key: SignalingKey) {
    self.relay = relay
    self.socket = socket
    self.receiver = receiver
    self.key = key
    // Weakly: the socket holds its receiver, and with it this closure.
    receiver.deliveries.whenRoom { [weak socket] in socket?.resume() }
  }

  deinit { socket.beginClosing() }

  /// What the relay delivers. Take it steadily: when more waits than `RelayClient.LiveOptions` allows for, nothing is
  /// read any more, answers to requests neither.
  public var deliveries: Deliveries { Deliveries(session: self) }

  /// Closes the connection, and waits until that is done: at most some seconds. Deliveries end at once.
  public func close() async { await socket.close() }

  /// Waits for the end of the connection, and says why it came.
  public func ended() async -> ConnectionEnd { await socket.ended() }

  /// Sends a request over this connection and waits for its answer, whatever its status. Needs the protobuf dialect.
  ///
  /// `client` offers the same for everything that this library knows.
  /// - Parameters:
  ///   - path: begins with `/`, percent-encoded.
  ///   - contentType: of `body`; relays read JSON alone.
  /// - Throws: `.unreachable` when the connection ends first; `.timedOut`. The request may have been done.
  public func request(
    _ method: String, _ path: String, body: [UInt8]? = nil, contentType: String = "application/json"
  ) async throws(RelayClientError) -> LiveAnswer {
    guard receiver.dialect == .protobuf else {
      throw .invalidArgument("the JSON dialect of WebSockets has no requests")
    }
    let headers = body == nil ? [] : ["content-type:\(contentType)"]
    let (socket, requests) = (socket, receiver.requests)
    do {
      return try await withDeadline(relay.connections.requestTimeout) {
        let answer = try await requests.exchange { id throws(ConnectionEnd) in
          try await socket.send(LiveDialect.request(id: id, verb: method, path: path, body: body, headers: headers))
        }
        guard let answer else { throw ConnectionEnd.closedHere }
        return answer
      }
    } catch let error as RelayClientError {
      throw error
    } catch let end as ConnectionEnd {
      throw end.failure
    } catch {
      throw .unreachable(reason: String(describing: error))  // The task was cancelled.
    }
  }

  func exchange(_ request: RelayRequest) async throws(RelayClientError) -> RelayAnswer {
    let answer = try await self.request(
      request.method.rawValue, request.path, body: request.body,
      contentType: request.contentType ?? "application/json")
    return RelayAnswer(
      status: answer.status, retryAfter: answer.headers["retry-after"].flatMap(Int.init).map { .seconds($0) },
      body: answer.body)
  }

  fileprivate func next() async throws(ConnectionEnd) -> Delivery? {
    guard let sealed = try await receiver.deliveries.next() else { return nil }
    do {
      return Delivery(id: sealed.id, opened: .success(try key.open(sealed.envelope)), session: self)
    } catch {
      return Delivery(id: sealed.id, opened: .failure(error), session: self)
    }
  }

  fileprivate func acknowledge(_ id: UInt64) async throws(ConnectionEnd) {
    try await socket.send(receiver.dialect.acknowledgement(of: id))
  }

  fileprivate func refuse(_ id: UInt64, status: Int) async throws(ConnectionEnd) {
    guard receiver.dialect == .protobuf else { return }
    try await socket.send(LiveDialect.answer(id: id, status: status))
  }
}

/// What a relay delivers over one connection. Ends when this client closes it, or the task is cancelled; throws any other
/// `ConnectionEnd`. Each delivery goes to one of those who iterate.
public struct Deliveries: AsyncSequence, Sendable {
  fileprivate let session: LiveSession

  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let session: LiveSession

    public mutating func next() async throws(ConnectionEnd) -> Delivery? { try await session.next() }
    public mutating func next(isolation: isolated (any Actor)?) async throws(ConnectionEnd) -> Delivery? {
      try await session.next()
    }
  }

  public func makeAsyncIterator() -> Iterator { Iterator(session: session) }
}

/// A message that came over a live connection. It stays in the mailbox until it is acknowledged.
public struct Delivery: Sendable {
  /// Names it on its connection alone.
  public let id: UInt64
  fileprivate let opened: Result<IncomingMessage, DeliveryError>
  fileprivate let session: LiveSession

  /// What was sent. - Throws: why it cannot be opened; `acknowledge()` removes it all the same.
  public var message: IncomingMessage { get throws(DeliveryError) { try opened.get() } }

  /// Removes it from the mailbox; the relay tells its sender. On return that has been asked for.
  public func acknowledge() async throws(ConnectionEnd) { try await session.acknowledge(id) }

  /// Says that this device cannot take it now: it comes again on the device's next connection. In the JSON dialect that
  /// is said by silence.
  public func refuse(status: Int = 500) async throws(ConnectionEnd) { try await session.refuse(id, status: status) }
}

/// Sorts what comes over a device's socket: deliveries, and answers to requests.
final class LiveReceiver: ClientSocketReceiver {
  let dialect: LiveDialect
  let deliveries: Inbox<SealedDelivery>
  let requests = LiveRequests()

  init(_ dialect: LiveDialect, bounds: Inbox<SealedDelivery>.Bounds) {
    self.dialect = dialect
    deliveries = Inbox(bounds: bounds)
  }

  func received(_ message: ClientSocket.Message) -> ClientSocketReaction {
    switch dialect.read(message) {
    case .delivery(let delivery):
      return deliveries.offer(delivery, bytes: delivery.envelope.count) ? .goOn : .pause
    case .answer(let id, let answer):
      requests.answered(id, answer)
      return .goOn
    case .request(let id, _, _, _):
      // Relays of the future may ask what this client does not know.
      return id.map { .answer(LiveDialect.answer(id: $0, status: 404)) } ?? .goOn
    case .nothing: return .goOn
    case .malformed: return .fail(reason: "it sent a message that cannot be read")
    }
  }

  func ended(_ end: ConnectionEnd) {
    deliveries.finish(end)
    requests.finish(end)
  }
}
