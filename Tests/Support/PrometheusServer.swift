import AsyncHTTPClient
import ChildProcesses
package import Foundation
import NIOCore

/// A real `prometheus` of one test with the rules of this repository. It cannot outlive the tests.
package final class PrometheusServer: Sendable {
  private let url: String
  private let folder: String
  private let process: ChildProcess

  /// Runs `body` with a Prometheus that asks `relays` each second and judges at once: what the rules wait for is left
  /// out.
  /// - Parameter changes: texts of the rules and what stands in their place, such as a threshold of hours.
  package static func with<Value>(
    watching relays: [RelayProcess], changing changes: [String: String] = [:],
    isolation: isolated (any Actor)? = #isolation, _ body: (PrometheusServer) async throws -> Value
  ) async throws -> Value {
    let server = try await PrometheusServer(relays, changes)
    do {
      let value = try await body(server)
      await server.stop()
      return value
    } catch {
      await server.stop()
      throw error
    }
  }

  /// The folder of the rules.
  package static var rules: URL {
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "deploy/prometheus")
  }

  private init(_ relays: [RelayProcess], _ changes: [String: String]) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-prometheus-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    var rules = try String(contentsOf: Self.rules.appending(path: "relay.rules.yml"), encoding: .utf8)
    for (text, other) in changes {
      guard rules.contains(text) else { throw TestFailure("the rules have no \(text)") }
      rules = rules.replacing(text, with: other)
    }
    rules = rules.replacing(try Regex("for: [0-9]+m"), with: "for: 0s")
    try rules.write(toFile: folder + "/relay.rules.yml", atomically: true, encoding: .utf8)
    let targets = relays.map { "\"127.0.0.1:\($0.operatorPort)\"" }.joined(separator: ", ")
    try """
    global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
    rule_files: [relay.rules.yml]
    scrape_configs:
      - job_name: relay
        static_configs: [{targets: [\(targets)]}]

    """.write(toFile: folder + "/prometheus.yml", atomically: true, encoding: .utf8)
    let port = try Loopback.freePorts(1)[0]
    process = try await ChildProcess.start(
      .init(
        command: [
          "/usr/bin/prometheus", "--config.file=\(folder)/prometheus.yml", "--storage.tsdb.path=\(folder)/data",
          "--web.listen-address=127.0.0.1:\(port)", "--log.level=warn",
        ], environment: [:], folder: folder, standardOutput: folder + "/log", standardError: folder + "/log"))
    (self.folder, url) = (folder, "http://127.0.0.1:\(port)")
    do {
      try await eventually("Prometheus answers", within: .seconds(60)) {
        if let exit = process.exit {
          throw TestFailure(
            "prometheus \(exit): \((try? String(contentsOfFile: folder + "/log", encoding: .utf8)) ?? "")")
        }
        return (try? await alerts()) != nil
      }
    } catch {
      await stop()
      throw error
    }
  }

  private struct Answer: Decodable {
    struct Data: Decodable {
      let alerts: [Alert]
    }
    struct Alert: Decodable {
      let labels: [String: String]
      let state: String
    }
    let data: Data
  }

  /// The labels of each alert that fires.
  package func alerts() async throws -> [[String: String]] {
    let response = try await TestHTTP.client.execute(
      HTTPClientRequest(url: url + "/api/v1/alerts"), timeout: .seconds(10))
    let body = try await response.body.collect(upTo: 1 << 22)
    return try JSONDecoder().decode(Answer.self, from: Data(body.readableBytesView)).data.alerts
      .filter { $0.state == "firing" }.map(\.labels)
  }

  private struct Counts: Decodable {
    struct Data: Decodable {
      let result: [Sample]
    }
    struct Sample: Decodable {
      let value: [Value]
    }
    /// A time, and a number as text.
    enum Value: Decodable {
      case time(Double)
      case text(String)
      init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let time = try? container.decode(Double.self) {
          self = .time(time)
        } else {
          self = .text(try container.decode(String.self))
        }
      }
    }
    let data: Data
  }

  /// Waits until the relays have been asked three times, and judged by that.
  package func untilJudged() async throws {
    let query = url + "/api/v1/query?query=min(sum_over_time(up%5B5m%5D))"
    try await eventually("the relays are watched", within: .seconds(60), every: .milliseconds(200)) {
      let response = try await TestHTTP.client.execute(HTTPClientRequest(url: query), timeout: .seconds(10))
      let body = try await response.body.collect(upTo: 1 << 20)
      let counts = try JSONDecoder().decode(Counts.self, from: Data(body.readableBytesView))
      guard case .text(let text)? = counts.data.result.first?.value.last else { return false }
      return (Double(text) ?? 0) >= 3
    }
  }

  /// Waits until an alert of that name fires.
  package func expect(_ name: String, within limit: Duration = .seconds(60)) async throws {
    try await eventually("\(name) fires", within: limit, every: .milliseconds(200)) {
      try await alerts().contains { $0["alertname"] == name }
    }
  }

  /// Waits until none of that name fires.
  package func expectQuiet(_ name: String, within limit: Duration = .seconds(60)) async throws {
    try await eventually("\(name) is quiet", within: limit, every: .milliseconds(200)) {
      try await !alerts().contains { $0["alertname"] == name }
    }
  }

  private func stop() async {
    await process.stop(SIGKILL)
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }
}
