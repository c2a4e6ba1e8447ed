import Foundation

/// A device's live connection to its relay: messages come as they arrive, without being asked for.
///
/// Messages that wait in the mailbox come first, then the new ones, in the order in which the relay accepted them. A
/// message stays in the mailbox until it is acknowledged, and comes again on the next connection otherwise. So tell
/// repetitions by source and timestamp. A newer connection of the same device ends this one (reference 1.12.1).
///
/// A session does not connect again by itself: <doc:LiveDelivery> has a loop that does. It is safe to use from many
/// tasks. It closes when nobody holds it, its deliveries or its client any more.
public final class LiveSession: RequestCarrier {
  /// A client of the same relay and device whose requests go over this connection, eight at once; others wait.
  ///
  /// Transfers of blobs, and requests that need other credentials or none, go over the pool of connections. It needs
  /// the protobuf dialect, as ``request(_:_:body:contentType:)`` does, and a relay that takes requests there
  /// (reference 1.12.4).
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

  /// The deliveries of this connection.
  ///
  /// Take them steadily. While as many wait as ``RelayClient/LiveOptions`` allows, nothing is read, and answers to
  /// requests do not come either.
  public var deliveries: Deliveries { Deliveries(session: self) }

  /// Closes the connection, and waits until that is done: five seconds at most. Deliveries that nobody has taken are
  /// dropped, and come again on the next connection.
  public func close() async { await socket.close() }

  /// Waits for the end of the connection.
  /// - Returns: the reason. It stays the same, however often this is called.
  public func ended() async -> ConnectionEnd { await socket.ended() }

  /// Sends a request over this connection and waits for its answer, whatever its status (reference 1.12.4).
  ///
  /// ``client`` has methods for everything that this library knows. Eight requests run at once; others wait, and the
  /// wait counts against ``RelayClient/Options/requestTimeout``.
  /// - Parameters:
  ///   - method: the method in capitals, such as `GET`.
  ///   - path: a percent-encoded path that begins with `/`, with its query.
  ///   - body: the bytes of the body; nil for none.
  ///   - contentType: the type of `body`. Relays read JSON alone.
  /// - Returns: the answer, also one that refuses.
  /// - Throws: `.invalidArgument` in the JSON dialect; `.unreachable` when the connection ends first or the task is
  ///   cancelled; `.timedOut`. After the last two the relay may have done what the request asks for.
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

/// The deliveries of one connection, in the order in which the relay accepted the messages.
///
/// The sequence ends when this client closes the connection or the task is cancelled. It throws any other
/// ``ConnectionEnd``, after the deliveries that have come before it. If several tasks iterate, each delivery goes to
/// one of them.
public struct Deliveries: AsyncSequence, Sendable {
  fileprivate let session: LiveSession

  /// Takes deliveries off a session. All iterators of a session share one queue.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let session: LiveSession

    /// Waits for the next delivery.
    /// - Returns: nil when this client has closed the connection or the task is cancelled.
    /// - Throws: any other end of the connection.
    public mutating func next() async throws(ConnectionEnd) -> Delivery? { try await session.next() }
    /// Waits for the next delivery, as `next()` does.
    /// - Parameter isolation: the caller's isolation, which Swift passes by itself. It makes no difference here.
    /// - Returns: nil when this client has closed the connection or the task is cancelled.
    /// - Throws: any other end of the connection.
    public mutating func next(isolation: isolated (any Actor)?) async throws(ConnectionEnd) -> Delivery? {
      try await session.next()
    }
  }

  /// Makes an iterator that takes deliveries off the session's one queue.
  /// - Returns: an iterator that keeps the session open while it lives.
  public func makeAsyncIterator() -> Iterator { Iterator(session: session) }
}

/// A message that came over a live connection. It stays in the mailbox until it is acknowledged (reference 1.12).
///
/// A delivery keeps its session open while it lives.
public struct Delivery: Sendable {
  /// The id that the relay gave the delivery. It means something on this connection alone; use source and timestamp
  /// of the message to tell repetitions.
  public let id: UInt64
  fileprivate let opened: Result<IncomingMessage, DeliveryError>
  fileprivate let session: LiveSession

  /// The message, opened with the session's signaling key (reference 2.4).
  ///
  /// - Throws: the reason why it cannot be opened. ``acknowledge()`` removes it all the same, ``refuse(status:)``
  ///   keeps it.
  public var message: IncomingMessage { get throws(DeliveryError) { try opened.get() } }

  /// Has the relay remove the message from the mailbox and tell its sender (reference 1.12.4).
  ///
  /// Store the message first. On return the word is on its way. If the connection ends before the relay has read it,
  /// the message comes again.
  /// - Throws: the end of the connection. The message stays in the mailbox then.
  public func acknowledge() async throws(ConnectionEnd) { try await session.acknowledge(id) }

  /// Tells the relay that this device cannot take the message now. It stays in the mailbox, and comes again on the
  /// device's next connection (reference 1.12.4).
  ///
  /// The JSON dialect has no word for that: there nothing is sent, with the same effect.
  /// - Parameter status: an HTTP status that is not 200...299. One of these would acknowledge the message.
  /// - Throws: the end of the connection.
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
