import ArgumentParser
import AsyncHTTPClient
import Foundation
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import RelayConfiguration
import RelayHTTP
import RelayWork

struct DrainCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "drain", abstract: "Stop one process of `relay serve` without hurry, and watch it go.",
    discussion: """
      Asks the process's listener for the operator's tools, on this host. The process says that it is not ready, closes \
      its WebSockets evenly over the time given, finishes the requests under way and exits with 0: as after SIGTERM, \
      over another time. Exits with 0 when it has gone; ending this command does not call it back.
      """)

  @OptionGroup var configuration: ConfigurationOption
  @Option(help: ArgumentHelp("Over how long, 0 to 3600; default: drain.seconds.", valueName: "seconds")) var over: Int?
  @Option(
    help: ArgumentHelp(
      "Its listener for the operator's tools; default: where operator.host and operator.port say.", valueName: "url"))
  var `operator`: String?

  func validate() throws {
    guard over.map((0...3600).contains) ?? true else { throw ValidationError("--over takes 0 to 3600 seconds.") }
    guard `operator`.map({ $0.hasPrefix("http://") }) ?? true else {
      throw ValidationError("--operator takes a URL such as http://127.0.0.1:8081.")
    }
  }

  func run() async throws {
    let settings = try configuration.load().configuration
    let seconds = over ?? Int(settings.drain.window.components.seconds)
    let url = try `operator` ?? settings.operations.url(otherwise: "--operator")
    var outbound = HTTPClient.Configuration(timeout: .init(connect: .seconds(3), read: .seconds(5)))
    outbound.connectionPool.retryConnectionEstablishment = false
    try await HTTPClient.withHTTPClient(configuration: outbound) { client in
      let process = DrainingProcess(url: url.hasSuffix("/") ? String(url.dropLast()) : url, client: client)
      let isNew = try await process.order(over: seconds)
      // One that was ordered before may have the longest window there is.
      try await process.watch(for: .seconds(isNew ? seconds : 3600) + Self.patience)
    }
  }

  /// Beyond the window: a little more than what hangs is given (docs/operating.md, "Stopping and restarting").
  private static let patience = Duration.seconds(100)
}

/// A process of `relay serve`, as its listener for the operator's tools shows it.
private struct DrainingProcess {
  let url: String
  let client: HTTPClient

  private struct State: Decodable {
    let draining: Bool
    let connections: Int
  }

  /// - Returns: false when it was draining already.
  func order(over seconds: Int) async throws -> Bool {
    let (status, body): (Int, Data)
    do {
      (status, body) = try await ask(.POST, "/drain?over=\(seconds)")
    } catch {
      throw CommandFailure(
        "Nothing answers at \(url) (\(FaultWords.of(error))). Is the process running? --operator names its operator.host and "
          + "operator.port.")
    }
    switch status {
    case 202:
      let left = try JSONDecoder().decode(State.self, from: body).connections
      Output.line("Draining over \(seconds) s: \(connections(left)).")
      return true
    case 409:
      Output.line("It is draining already, over the time that it was given first.")
      return false
    default:
      let words = String(decoding: body.prefix(300), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      throw CommandFailure("\(url) refuses with \(status): \(words)")
    }
  }

  /// Returns when the process has gone.
  func watch(for limit: Duration) async throws {
    let deadline = ContinuousClock.now + limit
    var shown: Int?
    while ContinuousClock.now < deadline {
      switch await look() {
      case .gone: return Output.line("It has stopped.")
      case .replaced: return Output.line("It has stopped; another process answers in its place.")
      case .draining(let left):
        if left != shown { Output.line("\(connections(left)) left") }
        shown = left
      case .unclear: break
      }
      guard await Pause.for(.milliseconds(500)) else { throw CancellationError() }
    }
    throw CommandFailure("It still runs \(limit) later. Look at its log; SIGTERM ends a draining process on the spot.")
  }

  private enum Look {
    case draining(Int)
    case gone, replaced, unclear
  }

  private func look() async -> Look {
    do {
      let (status, body) = try await ask(.GET, "/drain")
      guard status == 200 else { return .replaced }
      let state = try JSONDecoder().decode(State.self, from: body)
      return state.draining ? .draining(state.connections) : .replaced
    } catch {
      // Anything but a refused connection may mean that it is just going: the next look tells.
      return Self.isRefused(error) ? .gone : .unclear
    }
  }

  /// - Returns: the status, and the body as far as 64 KiB go.
  private func ask(_ method: HTTPMethod, _ path: String) async throws -> (Int, Data) {
    var request = HTTPClientRequest(url: url + path)
    request.method = method
    request.headers.add(name: "X-Relay-Drain", value: "1")
    let response = try await client.execute(request, timeout: .seconds(5))
    return (Int(response.status.code), Data(try await response.body.collect(upTo: 1 << 16).readableBytesView))
  }

  /// For a host name, each of its addresses was tried.
  private static func isRefused(_ error: any Error) -> Bool {
    let failures = (error as? NIOConnectionError)?.connectionErrors.map(\.error) ?? [error]
    return !failures.isEmpty && failures.allSatisfy { ($0 as? IOError)?.errnoCode == ECONNREFUSED }
  }

  private func connections(_ count: Int) -> String { count == 1 ? "1 connection" : "\(count) connections" }
}
