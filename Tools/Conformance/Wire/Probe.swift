// WebSockets as rules speak them: frame by frame.

import RelayClient

/// An open WebSocket. It closes when nobody holds it any more.
final class Probe: Sendable {
  private let socket: ClientSocket
  private let received: Inbox<ClientSocket.Message>
  private let patience: Duration

  init(_ socket: ClientSocket, _ messages: ProbeReceiver, patience: Duration) {
    self.socket = socket
    self.received = messages.received
    self.patience = patience
  }

  deinit { socket.cut() }

  func send(_ message: ClientSocket.Message) async throws(RuleFailure) {
    do {
      try await socket.send(message)
    } catch {
      throw RuleFailure(expected: "an open WebSocket", got: "\(error)")
    }
  }

  /// The next message. - Throws: when none comes in time, or the connection ends.
  func next(_ expected: String) async throws -> ClientSocket.Message {
    do {
      let message = try await withDeadline(patience) { [received] in try await received.next() }
      guard let message else { throw CancellationError() }
      return message
    } catch let end as ConnectionEnd {
      throw RuleFailure(expected: expected, got: "\(end)")
    } catch RelayClientError.timedOut {
      throw RuleFailure(expected: "\(expected) within \(patience.components.seconds) s", got: "nothing")
    }
  }

  /// Nothing comes for a second, and the connection stays.
  func expectSilence(because reason: String) async throws {
    do {
      let message = try await withDeadline(.seconds(1)) { [received] in try await received.next() }
      guard let message else { throw CancellationError() }
      throw RuleFailure(expected: "silence, \(reason)", got: message.summary)
    } catch let end as ConnectionEnd {
      throw RuleFailure(expected: "silence, \(reason)", got: "\(end)")
    } catch RelayClientError.timedOut {
      return
    }
  }

  /// The server closes, whatever it sends before.
  /// - Parameter codes: any of them; empty allows every code, a connection that is dropped without one not.
  func expectClosing(_ codes: [Int] = [], because reason: String) async throws {
    let expected =
      "closing, \(reason)" + (codes.isEmpty ? "" : ", with \(codes.map(String.init).joined(separator: " or "))")
    do {
      let end = try await withDeadline(patience) { [received] in
        while let _ = try await received.next() {}
        return nil as ConnectionEnd?
      }
      throw RuleFailure(expected: expected, got: end.map { "\($0)" } ?? "nothing")
    } catch let end as ConnectionEnd {
      guard let code = end.code, codes.isEmpty || codes.contains(code) else {
        throw RuleFailure(expected: expected, got: "\(end)")
      }
    } catch RelayClientError.timedOut {
      throw RuleFailure(expected: "\(expected), within \(patience.components.seconds) s", got: "an open connection")
    }
  }

  /// Closes with 1000, and waits for the server's answer.
  func close() async { await socket.close() }

  /// Drops the connection without a word.
  func cut() async {
    socket.cut()
    _ = await socket.ended()
  }
}

/// Takes in all that comes.
final class ProbeReceiver: ClientSocketReceiver {
  /// More than any rule makes a server send.
  let received = Inbox<ClientSocket.Message>(bounds: .init(count: 10_000, bytes: 16 << 20))

  func received(_ message: ClientSocket.Message) -> ClientSocketReaction {
    let bytes =
      switch message {
      case .text(let text): text.utf8.count
      case .binary(let bytes), .ping(let bytes), .pong(let bytes): bytes.count
      }
    return received.offer(message, bytes: bytes) ? .goOn : .fail(reason: "it sent far more than was asked for")
  }

  func ended(_ end: ConnectionEnd) { received.finish(end) }
}

extension ClientSocket.Message {
  /// For reports.
  var summary: String {
    switch self {
    case .text: "a text frame"
    case .binary(let bytes):
      switch LiveDialect.protobuf.read(self) {
      case .request(_, let verb, let path, _): "a request, \(verb) \(path.prefix(40))"
      case .delivery: "a delivery"
      case .answer(_, let answer): "an answer with status \(answer.status)"
      case .malformed, .nothing: "a binary frame of \(bytes.count) other bytes"
      }
    case .ping: "a ping"
    case .pong: "a pong"
    }
  }
}
