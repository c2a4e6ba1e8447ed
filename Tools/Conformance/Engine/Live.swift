// Live connections as rules open them and speak over them.

import Foundation
import RelayClient
import RelayCore

extension Session {
  /// The outcome of a request for a WebSocket.
  enum Opening {
    case opened(Probe)
    case refused(Answer)
  }

  /// Asks for a WebSocket at `path`, which has its query and is sent as it stands.
  /// - Throws: `RuleLimited`; `RuleFailure` when there is no answer.
  func open(_ path: String, headers: [(String, String)] = []) async throws -> Opening {
    var request = ClientSocketOpener.Request(path: path)
    request.headers = headers.map { (name: $0.0, value: $0.1) }
    for _ in 0..<3 {
      let receiver = ProbeReceiver()
      let outcome: ClientSocketOpener.Outcome
      do {
        outcome = try await target.sockets.open(request, receiver: receiver)
      } catch {
        throw RuleFailure(expected: "a WebSocket, or an answer", got: "\(error)", request: Self.shape(path))
      }
      switch outcome {
      case .opened(let socket): return .opened(Probe(socket, receiver, patience: target.requestTimeout))
      case .refused(let refusal):
        let answer = Answer(
          request: Self.shape(path), status: refusal.status, headers: refusal.headers, body: refusal.body)
        guard answer.status == 413, let seconds = answer.retryAfter else { return .refused(answer) }
        guard seconds <= 5 else { throw RuleLimited(retryAfter: seconds) }
        try await Task.sleep(for: .seconds(max(1, seconds)))
      }
    }
    throw RuleLimited(retryAfter: nil)
  }

  /// A WebSocket that must open.
  func openSocket(_ path: String, headers: [(String, String)] = []) async throws -> Probe {
    switch try await open(path, headers: headers) {
    case .opened(let probe): return probe
    case .refused(let answer):
      throw RuleFailure(expected: "a WebSocket", got: answer.summary, request: answer.request)
    }
  }

  /// A live connection of `device`, protobuf dialect, with credentials as most clients write them.
  func connect(_ device: Device) async throws -> Probe {
    try await openSocket("/v1/websocket/?login=\(escaped(device.user))&password=\(escaped(device.password))")
  }

  /// A live connection in the JSON dialect.
  func connectJSON(_ device: Device) async throws -> Probe {
    try await openSocket("/v1/websocket/?user=\(escaped(device.user))&password=\(escaped(device.password))")
  }

  /// A WebSocket must not come of it: an answer between 400 and 499, or one that is closed at once with 4001, as
  /// servers of some years did.
  func expectRefusal(_ path: String, headers: [(String, String)] = [], because reason: String) async throws {
    switch try await open(path, headers: headers) {
    case .opened(let probe): try await probe.expectClosing([4001], because: reason)
    case .refused(let answer):
      try answer.expect((400..<500).contains(answer.status), "a refusal, \(reason)", answer.summary)
    }
  }

  /// Asks `condition` until it is true. - Throws: `RuleFailure` when it is not in time.
  func until(_ expected: String, _ condition: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + target.requestTimeout
    while !(try await condition()) {
      guard ContinuousClock.now < deadline else {
        throw RuleFailure(expected: "\(expected), within \(target.requestTimeout.components.seconds) s", got: "not so")
      }
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  /// Tries a rule about the directory until it is kept, for some seconds at most: of several processes behind one
  /// address each may show a change a little later. - Throws: what `look` threw last.
  func settling(_ look: () async throws -> Void) async throws {
    let deadline = ContinuousClock.now + .seconds(3)
    while true {
      do {
        return try await look()
      } catch let failure as RuleFailure {
        guard ContinuousClock.now < deadline else { throw failure }
      }
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  /// An acknowledgement over a WebSocket is not answered: it shows in the mailbox.
  func untilMailbox(of device: Device, holds count: Int) async throws {
    try await until("\(count) messages in the mailbox") {
      try await mailbox(of: device).messages.count == count
    }
  }

  private static func shape(_ path: String) -> String { Exchange("GET", path).description }
}

/// All but letters and digits percent-encoded.
func escaped(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? text }

extension Probe {
  /// A request of the client's; an answer comes where it has an id.
  func ask(_ verb: String, _ path: String, id: UInt64?, _ body: JSON? = nil) async throws {
    let bytes = try body?.bytes()
    let headers = bytes == nil ? [] : ["content-type:application/json"]
    try await send(LiveDialect.request(id: id, verb: verb, path: path, body: bytes, headers: headers))
  }

  /// The answer to request `id`, and nothing before it.
  func expectAnswer(_ id: UInt64) async throws -> LiveAnswer {
    let message = try await next("the answer to request \(id)")
    guard case .answer(id, let answer) = LiveDialect.protobuf.read(message) else {
      throw RuleFailure(expected: "the answer to request \(id)", got: message.summary)
    }
    return answer
  }

  /// Sends a keep-alive and expects that it is answered: the connection stands, and nothing else has come.
  func expectAlive(id: UInt64 = 4242) async throws {
    try await ask("GET", "/v1/keepalive", id: id)
    let answer = try await expectAnswer(id)
    try expectEqual(answer.status, 200, "status of a keep-alive")
  }

  /// The next delivery, as it came.
  func expectSealed() async throws -> SealedDelivery {
    let message = try await next("a delivery")
    guard case .delivery(let delivery) = LiveDialect.protobuf.read(message) else {
      throw RuleFailure(expected: "a delivery, PUT /api/v1/message", got: message.summary)
    }
    return delivery
  }

  /// The next delivery, opened with `device`'s signaling key.
  func expectDelivery(to device: Device) async throws -> (id: UInt64, message: IncomingMessage) {
    let delivery = try await expectSealed()
    return (delivery.id, try device.open(delivery.envelope))
  }

  /// So many deliveries, each acknowledged as it comes. - Returns: their times, in the order in which they came.
  func take(_ count: Int, as device: Device) async throws -> [Int64] {
    var times: [Int64] = []
    for _ in 0..<count {
      let (id, message) = try await expectDelivery(to: device)
      times.append(message.timestamp)
      try await answer(id)
    }
    return times
  }

  /// Answers the server's request; 200 acknowledges a delivery.
  func answer(_ id: UInt64, status: Int = 200) async throws(RuleFailure) {
    try await send(LiveDialect.answer(id: id, status: status))
  }
}

extension Device {
  func open(_ envelope: [UInt8]) throws -> IncomingMessage {
    do {
      return try SignalingKey(signalingKey).open(envelope)
    } catch let error as DeliveryError {
      throw RuleFailure(expected: "an envelope under the device's signaling key", got: "\(error)")
    }
  }
}
