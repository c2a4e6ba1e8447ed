// A private S3 for tests: moto_server, which speaks S3's protocol, from PyPI.

import AsyncHTTPClient
import ChildProcesses
import Foundation
import NIOCore
import NIOHTTP1

/// A `moto_server` process with one empty bucket. It keeps everything in memory and takes every credential.
package final class S3Server: Sendable {
  package let port: Int
  package let bucket = "blobs"
  package var endpoint: String { "http://127.0.0.1:\(port)" }
  private let process: ChildProcess

  /// Runs `body` with a server of its own that is gone afterwards.
  package static func with<Value>(
    isolation: isolated (any Actor)? = #isolation, _ body: (S3Server) async throws -> Value
  ) async throws -> Value {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-s3-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    // A leftover in the temporary folder hurts nobody.
    defer { try? FileManager.default.removeItem(at: folder) }
    let server = try await S3Server(log: folder.appending(path: "log").path)
    let outcome: Result<Value, any Error>
    do {
      outcome = .success(try await body(server))
    } catch {
      outcome = .failure(error)
    }
    await server.process.stop()
    return try outcome.get()
  }

  private init(log: String) async throws {
    let port = try Loopback.freePorts(1)[0]
    self.port = port
    let process = try await ChildProcess.start(
      .init(
        command: [try PythonTools.path(of: "moto_server"), "-H", "127.0.0.1", "-p", "\(port)"],
        environment: ProcessInfo.processInfo.environment, standardOutput: log, standardError: log))
    self.process = process
    var making = HTTPClientRequest(url: "http://127.0.0.1:\(port)/\(bucket)")
    making.method = .PUT
    do {
      try await eventually("moto_server answers") { () async throws -> Bool in
        if let exit = process.exit { throw TestFailure("moto_server \(exit)") }
        // Refused until it listens.
        return (try? await TestHTTP.client.execute(making, timeout: .seconds(10)).status) == .ok
      }
    } catch {
      await process.stop()
      throw error
    }
  }
}

/// The tools that `scripts/install-python-tools.sh` installs.
package enum PythonTools {
  /// - Throws: `TestFailure` with the remedy when it is not installed.
  package static func path(of tool: String) throws -> String {
    let running = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let starts =
      ([running] + CommandLine.arguments.filter { $0.hasSuffix(".xctest") }).map {
        URL(fileURLWithPath: $0).deletingLastPathComponent()
      } + [URL(fileURLWithPath: FileManager.default.currentDirectoryPath)]
    for start in starts {
      var folder = start.standardizedFileURL
      while folder.path != "/" {
        let candidate = folder.appending(path: ".build/python/bin/\(tool)").path
        if FileManager.default.isExecutableFile(atPath: candidate) { return candidate }
        folder.deleteLastPathComponent()
      }
    }
    throw TestFailure("no \(tool) in .build/python: run scripts/install-python-tools.sh")
  }
}
