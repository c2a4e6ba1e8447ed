import ChildProcesses
import Foundation
import Glibc
import Synchronization
import TestSupport
import TestTags
import Testing

/// Requests that a generator made of docs/openapi.yaml, thousands of them, right ones and wrong ones.
@Suite(.tags(.processes), .serialized, .ownRelay) struct FuzzTests {
  @Test func `no generated request is answered with 5xx, or with what docs/openapi.yaml does not say`() async throws {
    let relay = try suiteRelay().relay
    let outcome = try await fuzz(relay.url, "--seconds", "150")
    #expect(outcome.exit == .code(0), "\(outcome.output.suffix(6000))")
    #expect(relay.child.exit == nil)
    #expect(await relay.readyz()?.status == 200)

    let counted = try await Self.counts(at: relay)
    #expect(counted.map(\.requests).reduce(0, +) > 400, "so few requests say little")
    #expect(counted.allSatisfy { $0.status < 500 }, "\(counted.filter { $0.status >= 500 })")
    let document = try OpenAPIDocument()
    for operation in document.operations {
      let seen = counted.filter { $0.route == operation.route && $0.method == operation.method }
      #expect(!seen.isEmpty, "\(operation.method) \(operation.route) was not tried")
    }
    #expect(!relay.log().contains("request failed"), "\(relay.log().suffix(1000))")
  }

  @Test func `a server that fails, and one that says what is not documented, are found out`() async throws {
    for (status, finding) in [(500, "Server error"), (299, "Undocumented")] {
      let server = try StubbornServer(answer: "HTTP/1.1 \(status) X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      defer { server.close() }
      let outcome = try await fuzz(
        "http://127.0.0.1:\(server.port)", "--seconds", "5", "--account", "+15550000001:password")
      #expect(outcome.exit == .code(1), "\(outcome.output.suffix(2000))")
      #expect(outcome.output.contains(finding), "\(outcome.output.suffix(2000))")
    }
  }

  /// The counts of the client edge.
  private struct Count {
    let method: String
    let route: String
    let status: Int
    let requests: Int
  }

  private static func counts(at relay: RelayProcess) async throws -> [Count] {
    try await relay.ask("/metrics").text.split(separator: "\n").compactMap { line in
      guard line.hasPrefix("relay_http_requests_total{"), line.contains(#"edge="client""#),
        let method = line.firstMatch(of: /method="([^"]+)"/)?.1, let path = line.firstMatch(of: /path="([^"]+)"/)?.1,
        let status = line.firstMatch(of: /status="(\d+)"/).flatMap({ Int($0.1) }),
        let requests = line.split(separator: " ").last.flatMap({ Double($0) })
      else { return nil }
      return Count(
        method: String(method), route: OpenAPIDocument.route(String(path)), status: status, requests: Int(requests))
    }
  }

  private func fuzz(_ arguments: String...) async throws -> (exit: ChildProcess.Exit, output: String) {
    let site = try suiteRelay().site
    let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "scripts/fuzz-api.sh").path
    let output = "\(site.folder)/fuzz-\(UUID().uuidString).txt"
    var environment = ProcessInfo.processInfo.environment
    environment["SCHEMATHESIS"] = try PythonTools.path(of: "schemathesis")
    let child = try await ChildProcess.start(
      .init(
        command: [script] + arguments, environment: environment, folder: site.folder, standardOutput: output,
        standardError: output, deathSignal: "TERM"))
    let exit = await child.killed(after: .seconds(200))
    return (exit, String(decoding: try Data(contentsOf: URL(filePath: output)), as: UTF8.self))
  }
}

/// An HTTP server that says the same to everything.
private final class StubbornServer: Sendable {
  let port: Int
  private let descriptor: Int32
  private let isClosed = Mutex(false)

  init(answer: String) throws {
    (descriptor, port) = try Loopback.listen()
    Thread.detachNewThread { [self] in
      while true {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { break }
        Self.serve(connection, Array(answer.utf8))
        Glibc.close(connection)
      }
      isClosed.withLock { isClosed in
        isClosed = true
        Glibc.close(descriptor)
      }
    }
  }

  func close() { isClosed.withLock { if !$0 { shutdown(descriptor, Int32(SHUT_RDWR)) } } }

  /// Reads what comes within a moment, whole or not, and answers.
  private static func serve(_ connection: Int32, _ answer: [UInt8]) {
    var patience = timeval(tv_sec: 0, tv_usec: 20_000)
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    var tail: [UInt8] = []
    repeat {
      let count = recv(connection, &buffer, buffer.count, 0)
      guard count > 0 else { break }
      tail = Array((tail + buffer.prefix(count)).suffix(4))
    } while tail != Array("\r\n\r\n".utf8)
    _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))  // A caller that went away learns nothing.
    shutdown(connection, Int32(SHUT_WR))
    while recv(connection, &buffer, buffer.count, 0) > 0 {}
  }
}
