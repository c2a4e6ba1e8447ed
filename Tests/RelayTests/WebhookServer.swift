import Foundation
import Glibc
import Synchronization
import TestSupport

/// An operator's own sender of codes: a small HTTP server that keeps what it was asked.
final class WebhookServer: Sendable {
  struct Received: Sendable {
    let requestLine: String
    /// Names in lower case.
    let headers: [String: String]
    let body: String
  }

  let port: Int
  private let descriptor: Int32
  private let state = Mutex(State())

  private struct State {
    var status = 200
    var received: [Received] = []
    var isClosed = false
  }

  /// Serves one request a connection until `close()`.
  init() throws {
    (descriptor, port) = try Loopback.listen()
    Thread.detachNewThread { [self] in
      while true {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { break }
        serve(connection)
        Glibc.close(connection)
      }
      // The listening socket is this thread's alone: its number may be another file's from here on.
      state.withLock { state in
        state.isClosed = true
        Glibc.close(descriptor)
      }
    }
  }

  /// Takes no more connections; may be called again.
  func close() {
    state.withLock { state in
      if !state.isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// Sets the answer to the requests to come.
  func answer(with status: Int) { state.withLock { $0.status = status } }

  var received: [Received] { state.withLock { $0.received } }

  private func serve(_ connection: Int32) {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      if let request = Self.parse(bytes) {
        let status = state.withLock { state in
          state.received.append(request)
          return state.status
        }
        let answer = Array("HTTP/1.1 \(status) X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
        _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))  // A caller that went away learns nothing.
        return
      }
      let count = recv(connection, &buffer, buffer.count, 0)
      guard count > 0 else { return }
      bytes += buffer.prefix(count)
    }
  }

  /// - Returns: nil until head and body are whole.
  private static func parse(_ bytes: [UInt8]) -> Received? {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let end = text.range(of: "\r\n\r\n") else { return nil }
    let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
    var headers: [String: String] = [:]
    for line in lines.dropFirst() {
      let parts = line.split(separator: ":", maxSplits: 1)
      if parts.count == 2 { headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces) }
    }
    let body = String(text[end.upperBound...])
    guard body.utf8.count == headers["content-length"].flatMap({ Int($0) }) else { return nil }
    return Received(requestLine: lines[0], headers: headers, body: body)
  }
}
