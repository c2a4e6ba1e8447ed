// The way out for requests: raw HTTP, so that odd headers, bodies and paths can be sent.

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import RelayClient

/// The server that is examined.
final class Target: Sendable {
  /// Without a trailing slash.
  let url: String
  let sockets: ClientSocketOpener
  /// From the first byte of a request to the last one of its answer; also how long a frame is waited for.
  let requestTimeout: Duration
  private let http: HTTPClient

  /// Far above any answer of the suite: pages of messages and 1 MiB attachments.
  private static let answerBytesMax = 8 << 20

  /// - Throws: `RunFailure` when the URL or the trust roots cannot be read.
  init(url: String, trustRootsPEM: String?, requestTimeout: Duration) throws(RunFailure) {
    guard let parsed = URL(string: url), ["http", "https"].contains(parsed.scheme), parsed.host() != nil,
      (1...65_535).contains(parsed.port ?? 80)
    else { throw RunFailure("The target must be a URL such as http://127.0.0.1:8080.") }
    self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
    self.requestTimeout = requestTimeout
    do {
      sockets = try ClientSocketOpener(
        url: self.url, trustRootsPEM: trustRootsPEM, connectTimeout: .seconds(5), handshakeTimeout: requestTimeout)
    } catch {
      throw RunFailure("\(error)")
    }
    var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
    configuration.timeout.connect = .seconds(5)
    // A closed port is told at once instead of being tried until the time-out.
    configuration.connectionPool.retryConnectionEstablishment = false
    if let trustRootsPEM {
      var tls = TLSConfiguration.makeClientConfiguration()
      do {
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(trustRootsPEM.utf8)))
      } catch {
        throw RunFailure("The file of trust roots holds no certificates in PEM.")
      }
      configuration.tlsConfiguration = tls
    }
    http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// Closes all connections. A failure to close one is ignored: knowing of it helps no caller.
  func close() async { try? await http.shutdown() }

  /// Sends `exchange` once and reads the whole answer, whatever its status.
  /// - Throws: `RuleFailure` when there is none.
  func send(_ exchange: Exchange) async throws -> Answer {
    var request = HTTPClientRequest(url: exchange.path.hasPrefix("/") ? url + exchange.path : exchange.path)
    request.method = .RAW(value: exchange.method)
    for (name, value) in exchange.headers { request.headers.add(name: name, value: value) }
    switch exchange.body {
    case .none: break
    case .whole(let bytes): request.body = .bytes(bytes)
    case .chunked(let bytes): request.body = .bytes(bytes, length: .unknown)
    }
    let description = exchange.description
    do {
      return try await withDeadline(requestTimeout) { [request, http] in
        let response = try await http.execute(request, deadline: .distantFuture)
        let body = try await response.body.collect(upTo: Self.answerBytesMax)
        var headers: [String: String] = [:]
        for field in response.headers { headers[field.name.lowercased()] = field.value }
        return Answer(
          request: description, status: Int(response.status.code), headers: headers, body: Array(body.readableBytesView)
        )
      }
    } catch is CancellationError {
      throw CancellationError()
    } catch RelayClientError.timedOut {
      throw RuleFailure(
        expected: "an answer within \(requestTimeout.components.seconds) s", got: "none", request: description)
    } catch {
      throw RuleFailure(expected: "an answer", got: Self.reason(error), request: description)
    }
  }

  private static func reason(_ error: any Error) -> String {
    if let error = error as? IOError { return String(cString: strerror(error.errnoCode)) }
    if error is NIOTooManyBytesError { return "more than \(answerBytesMax >> 20) MiB" }
    return "\(error)"
  }
}

/// Why a run did not take place, with its remedy.
package struct RunFailure: Error, Sendable, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}
