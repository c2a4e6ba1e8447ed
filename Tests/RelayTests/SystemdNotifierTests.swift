import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// The messages to systemd from a process that it started with `Type=notify`.
@Suite(.tags(.processes)) struct SystemdNotifierTests {
  /// The socket on which systemd listens.
  private final class Listener {
    let path: String
    private let descriptor: Int32
    private(set) var words: [String] = []

    init(_ path: String) throws {
      self.path = path
      descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
      let address = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + Array(path.utf8) + [0]
      let bound = address.withUnsafeBytes { bytes in
        bind(descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
      }
      guard descriptor >= 0, bound == 0 else { throw TestFailure("no socket at \(path)") }
    }

    deinit { close(descriptor) }

    /// Fills the socket, as a systemd does that is too busy to read: whoever sends now is turned away.
    func fill() throws {
      let sender = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
      defer { close(sender) }
      let address = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + Array(path.utf8) + [0]
      let connected = address.withUnsafeBytes { bytes in
        connect(sender, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
      }
      guard connected == 0 else { throw TestFailure("no connection to \(path)") }
      while send(sender, "filled", 6, Int32(MSG_DONTWAIT)) > 0 {}
      guard errno == EAGAIN else { throw TestFailure("filling ended with errno \(errno)") }
    }

    /// Reads what has come, without waiting.
    func read() {
      var buffer = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return }
        words += String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n").map(String.init)
      }
    }
  }

  @Test func `it is told when the relay is ready, that it lives, and that it stops`() async throws {
    try await RelayOperator.with { site in
      let listener = try Listener(site.folder + "/notify")
      let relay = try await site.serve([
        "NOTIFY_SOCKET": listener.path, "WATCHDOG_USEC": "900000", "RELAY_DRAIN_SECONDS": "1",
      ])
      try await eventually("it is ready") {
        listener.read()
        return listener.words.contains("READY=1")
      }
      try await eventually("it lives") {
        listener.read()
        return listener.words.filter { $0 == "WATCHDOG=1" }.count >= 3
      }
      #expect(!listener.words.contains("STOPPING=1") && listener.words.filter { $0 == "READY=1" }.count == 1)
      #expect(await relay.terminate() == .code(0))
      listener.read()
      #expect(listener.words.contains("STOPPING=1"))
    }
  }

  @Test func `a word that found the socket full is said again`() async throws {
    try await RelayOperator.with { site in
      let listener = try Listener(site.folder + "/notify")
      try listener.fill()
      let relay = try await site.serve(["NOTIFY_SOCKET": listener.path, "RELAY_DRAIN_SECONDS": "1"])
      try await eventually("it is ready") {
        listener.read()
        return listener.words.contains("READY=1")
      }
      #expect(listener.words.contains("filled"))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a store that is away leaves it not ready`() async throws {
    try await RelayOperator.with { site in
      let listener = try Listener(site.folder + "/notify")
      let relay = try await site.startServing([
        "NOTIFY_SOCKET": listener.path, "WATCHDOG_USEC": "600000",
        "RELAY_STORAGE_URL": "postgres://nobody@127.0.0.1:1/none",
      ])
      try await eventually("it lives") {
        listener.read()
        return listener.words.contains("WATCHDOG=1")
      }
      #expect(!listener.words.contains("READY=1"))
      await relay.kill9()
    }
  }
}
