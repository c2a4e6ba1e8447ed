import Foundation
import Glibc
import Synchronization
import TestSupport

extension DefectiveServer {
  /// One WebSocket frame, its mask taken off.
  struct Frame: Sendable {
    enum Kind: UInt8 {
      case continuation, text, binary
      case close = 8
      case ping, pong
    }

    var isForRelay: Bool
    var kind: Kind
    var payload: [UInt8]
    var isFinal = true
  }

  /// - Returns: what is sent in the frame's place, each to its own side.
  typealias SocketDefect = @Sendable (Frame) -> [Frame]
}

/// Passes a WebSocket on to a relay, frame by frame, both ways.
final class SocketBridge: Sendable {
  private let client: Int32
  private let relay: Int32
  private let defect: DefectiveServer.SocketDefect
  /// Two threads write to either side.
  private let writing = Mutex(())

  private init(_ client: Int32, _ relay: Int32, _ defect: @escaping DefectiveServer.SocketDefect) {
    self.client = client
    self.relay = relay
    self.defect = defect
  }

  /// - Returns: false when `request` asks for no WebSocket; else once both sides have ended.
  static func serve(
    _ request: [UInt8], from client: Int32, to port: Int, _ defect: @escaping DefectiveServer.SocketDefect
  ) -> Bool {
    guard String(decoding: request, as: UTF8.self).lowercased().contains("\r\nupgrade: websocket") else { return false }
    // A relay that cannot be reached has no answer: neither has this server then.
    guard let relay = try? Loopback.connect(to: port, patience: 60) else { return true }
    defer { Glibc.close(relay) }
    send(request, to: relay)
    var answer: [UInt8] = []
    let mark = Array("\r\n\r\n".utf8)
    while !answer.contains(mark) {
      guard let part = receive(from: relay) else { break }
      answer += part
    }
    guard String(decoding: answer.prefix(12), as: UTF8.self) == "HTTP/1.1 101", let end = answer.firstRange(of: mark)
    else {
      // A refusal: all of it.
      while let part = receive(from: relay) { answer += part }
      send(answer, to: client)
      return true
    }
    send(Array(answer[..<end.upperBound]), to: client)
    SocketBridge(client, relay, defect).run(begun: Array(answer[end.upperBound...]))
    return true
  }

  private func run(begun: [UInt8]) {
    let isDone = DispatchSemaphore(value: 0)
    Thread.detachNewThread { [self] in
      pump(from: relay, begun: begun)
      isDone.signal()
    }
    pump(from: client, begun: [])
    isDone.wait()
  }

  /// Ends when one side has closed, and then ends both.
  private func pump(from side: Int32, begun: [UInt8]) {
    var bytes = begun[...]
    while true {
      while let frame = Self.frame(&bytes, isForRelay: side == client) {
        for sent in defect(frame) { write(sent) }
      }
      guard let part = Self.receive(from: side) else { break }
      bytes += part
    }
    shutdown(client, Int32(SHUT_RDWR))
    shutdown(relay, Int32(SHUT_RDWR))
  }

  /// Takes a whole frame off `bytes`. - Returns: nil when there is none yet.
  private static func frame(_ bytes: inout ArraySlice<UInt8>, isForRelay: Bool) -> DefectiveServer.Frame? {
    var rest = bytes
    guard let first = rest.popFirst(), let second = rest.popFirst() else { return nil }
    var count = Int(second & 0x7F)
    let lengthBytes = count == 126 ? 2 : count == 127 ? 8 : 0
    if lengthBytes > 0 {
      guard rest.count >= lengthBytes else { return nil }
      count = rest.prefix(lengthBytes).reduce(0) { $0 << 8 | Int($1) }
      rest = rest.dropFirst(lengthBytes)
    }
    let isMasked = second & 0x80 != 0
    let mask = isMasked ? Array(rest.prefix(4)) : [0, 0, 0, 0]
    if isMasked { rest = rest.dropFirst(4) }
    guard mask.count == 4, rest.count >= count, let kind = DefectiveServer.Frame.Kind(rawValue: first & 0x0F) else {
      return nil
    }
    let payload = rest.prefix(count).enumerated().map { $1 ^ mask[$0 % 4] }
    bytes = rest.dropFirst(count)
    return DefectiveServer.Frame(isForRelay: isForRelay, kind: kind, payload: payload, isFinal: first & 0x80 != 0)
  }

  private func write(_ frame: DefectiveServer.Frame) {
    var bytes: [UInt8] = [(frame.isFinal ? 0x80 : 0) | frame.kind.rawValue]
    let masked: UInt8 = frame.isForRelay ? 0x80 : 0
    let count = frame.payload.count
    switch count {
    case ..<126: bytes.append(masked | UInt8(count))
    case ..<65_536: bytes += [masked | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
    default:
      bytes.append(masked | 127)
      bytes += (0..<8).reversed().map { UInt8(truncatingIfNeeded: count >> (8 * $0)) }
    }
    let mask: [UInt8] = frame.isForRelay ? [1, 2, 3, 4] : [0, 0, 0, 0]
    if frame.isForRelay { bytes += mask }
    bytes += frame.payload.enumerated().map { $1 ^ mask[$0 % 4] }
    writing.withLock { _ in Self.send(bytes, to: frame.isForRelay ? relay : client) }
  }

  private static func receive(from descriptor: Int32) -> [UInt8]? {
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return count > 0 ? Array(buffer.prefix(count)) : nil
  }

  private static func send(_ bytes: [UInt8], to descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { return }  // A side that went away learns nothing.
      rest = rest.dropFirst(count)
    }
  }
}
