// The one place where requests leave and answers come in.

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL

/// A request to be sent, as the protocol's methods describe it.
struct RelayRequest {
  enum Method: String {
    case get = "GET"
    case put = "PUT"
    case delete = "DELETE"
  }

  var method: Method
  /// Begins with `/`, percent-encoded; empty where the URL is whole.
  var path: String
  var body: [UInt8]?
  /// Sent with it; nil sends none.
  var contentType: String?
  var answerBytesMax = AnswerLimits.smallBytesMax

  init(
    _ method: Method, _ path: String, answerBytesMax: Int = AnswerLimits.smallBytesMax, contentType: String? = nil
  ) {
    self.method = method
    self.path = path
    self.answerBytesMax = answerBytesMax
    self.contentType = contentType
  }

  /// - Throws: `.invalidArgument` for a value that JSON cannot hold.
  init(
    _ method: Method, _ path: String, body: some Encodable, answerBytesMax: Int = AnswerLimits.smallBytesMax
  ) throws(RelayClientError) {
    self.init(method, path, answerBytesMax: answerBytesMax, contentType: "application/json")
    do {
      self.body = try Array(JSONEncoder().encode(body))
    } catch {
      throw .invalidArgument("the request cannot be written as JSON")
    }
  }
}

/// A whole answer, its body bounded.
struct RelayAnswer {
  let status: Int
  let retryAfter: Duration?
  let body: [UInt8]

  /// The first line of a plain text, as far as it can be shown.
  var reason: String {
    let line = body.prefix { $0 != UInt8(ascii: "\n") }.prefix(200)
    return String(decoding: line.filter { (0x20...0x7E).contains($0) }, as: UTF8.self)
  }

  /// - Throws: `.unexpectedAnswer` when the body is not the JSON of an `Answer`.
  func decoded<Answer: Decodable>(_: Answer.Type) throws(RelayClientError) -> Answer {
    do {
      return try JSONDecoder().decode(Answer.self, from: Data(body))
    } catch {
      // The decoder's own words would quote the body.
      throw .unexpectedAnswer(status: status, reason: "its body is not a \(Answer.self)")
    }
  }
}

/// Pooled connections; they close when the last client that shares them is gone.
final class RelayConnections: Sendable {
  let sockets: ClientSocketOpener
  let requestTimeout: Duration
  private let http: HTTPClient

  init(url: String, options: RelayClient.Options) throws(RelayClientError) {
    sockets = try ClientSocketOpener(
      url: url, trustRootsPEM: options.trustRootsPEM, connectTimeout: options.connectTimeout,
      handshakeTimeout: options.requestTimeout)
    var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
    configuration.timeout.connect = .nanoseconds(options.connectTimeout.nanoseconds)
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = max(1, options.connectionsMax)
    // A refused certificate or a closed port is told at once instead of being tried until the time-out.
    configuration.connectionPool.retryConnectionEstablishment = false
    if let pem = options.trustRootsPEM {
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.trustRoots = try NIOSSLTrustRoots(pem: pem)
      configuration.tlsConfiguration = tls
    }
    http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    requestTimeout = options.requestTimeout
  }

  deinit {
    // The pool keeps itself alive until its connections are closed. A failure to close one helps nobody any more.
    http.shutdown { _ in }
  }

  /// Sends `request` once and waits for the whole answer, whatever its status.
  func exchange(_ request: RelayRequest, with url: String, as credentials: Credentials?) async throws(RelayClientError)
    -> RelayAnswer
  {
    var outgoing = HTTPClientRequest(url: url + request.path)
    outgoing.method = HTTPMethod(rawValue: request.method.rawValue)
    if let credentials { outgoing.headers.add(name: "Authorization", value: credentials.basic) }
    if let contentType = request.contentType { outgoing.headers.add(name: "Content-Type", value: contentType) }
    if let body = request.body { outgoing.body = .bytes(body) }
    let bytesMax = request.answerBytesMax
    do {
      return try await withDeadline(requestTimeout) { [outgoing, http] in
        // AsyncHTTPClient's own deadline ends with the answer's head; the one around this covers the body too.
        let response = try await http.execute(outgoing, deadline: .distantFuture)
        let body = try await response.body.collect(upTo: bytesMax)
        return RelayAnswer(
          status: Int(response.status.code),
          retryAfter: response.headers.first(name: "Retry-After").flatMap(Int.init).map { .seconds($0) },
          body: Array(body.readableBytesView))
      }
    } catch let error as RelayClientError {
      throw error
    } catch is NIOTooManyBytesError {
      throw .unexpectedAnswer(status: 200, reason: "its body is larger than \(bytesMax) bytes")
    } catch let error as HTTPClientError where error == .connectTimeout {
      throw .timedOut
    } catch let error as IOError {
      throw .unreachable(reason: String(cString: strerror(error.errnoCode)))
    } catch {
      throw .unreachable(reason: String(describing: error))
    }
  }
}

extension RelayClient {
  /// Sends `request` with this client's credentials. - Throws: also for every status that is not 2xx.
  func send(_ request: RelayRequest) async throws(RelayClientError) -> RelayAnswer {
    if let carrier { return try await carrier.exchange(request).successful() }
    return try await connections.exchange(request, with: url, as: credentials).successful()
  }
}

extension RelayAnswer {
  /// This answer. - Throws: what its status says, unless that is 2xx.
  func successful() throws(RelayClientError) -> RelayAnswer {
    guard !(200..<300).contains(status) else { return self }
    switch status {
    case 409:
      if let devices = try? decoded(MismatchedDevices.self) {  // else an ordinary refusal
        throw .mismatchedDevices(missing: devices.missingDevices, extra: devices.extraDevices)
      }
    case 410:
      if let devices = try? decoded(StaleDevices.self) {  // else an ordinary refusal
        throw .staleDevices(devices.staleDevices)
      }
    default: break
    }
    throw .refused(status: status, reason: reason, retryAfter: retryAfter)
  }

  private struct MismatchedDevices: Decodable {
    let missingDevices: [Int]
    let extraDevices: [Int]
  }
  private struct StaleDevices: Decodable { let staleDevices: [Int] }
}

/// `?relay=NAME` for another relay, nothing for the client's own.
func relayQuery(_ relay: String?) throws(RelayClientError) -> String {
  guard let relay else { return "" }
  guard let name = relay.addingPercentEncoding(withAllowedCharacters: .alphanumerics), !name.isEmpty else {
    throw .invalidArgument("a relay's name may not be empty")
  }
  return "?relay=\(name)"
}

extension Duration {
  /// A century at most: whoever wants no limit may say so by a longer time.
  var nanoseconds: Int64 {
    let century = Int64(100 * 365 * 86_400)
    let (seconds, attoseconds) = components
    guard (-century..<century).contains(seconds) else { return (seconds < 0 ? -century : century) * 1_000_000_000 }
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}
