import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import RelayCore
package import RelayHTTP

/// The sender of requests over a socket: the facts that were given for all of them when it was opened.
struct SocketCaller: Sendable {
  let device: ProvedDevice
  let origin: RequestOrigin
  /// The client's name for the relay.
  let authority: String?
}

/// Answers requests that come over a socket, by the router that answers those over HTTP.
package struct SocketRouter: Sendable {
  private let responder: any HTTPResponder<ClientContext>
  private let accounts: AccountCache
  private let load: RequestLoad
  private let logger: Logger

  /// - Parameter load: of the clients' listener.
  package init(
    responder: any HTTPResponder<ClientContext>, accounts: AccountCache, load: RequestLoad, logger: Logger
  ) {
    self.responder = responder
    self.accounts = accounts
    self.load = load
    self.logger = logger
  }

  func answer(_ call: SocketCall, of sender: SocketCaller) async -> SocketAnswer {
    guard load.admits() else { return await plain(RequestLoad.refusal) }
    load.began()
    defer { load.ended() }
    do {
      guard let request = Request(call, to: sender.authority) else { throw Problem(.notFound) }
      guard let caller = try await accounts.caller(sender.device) else { throw Problem(.unauthorized) }
      let context = ClientContext(caller: caller, origin: sender.origin, logger: logger)
      return try await SocketAnswer(try await responder.respond(to: request, context: context))
    } catch let problem as Problem {
      return await plain(problem)
    } catch is CollectedBody.TooLarge {
      logger.debug("an answer is too large for a socket")
      return await plain(Problem(.internalError))
    } catch {
      logger.error("request failed", metadata: ["error": "\(type(of: error))"])
      return await plain(Problem(.internalError))
    }
  }

  private func plain(_ problem: Problem) async -> SocketAnswer {
    do {
      return try await SocketAnswer(problem.response)
    } catch {
      return SocketAnswer(status: problem.kind.status, message: "")
    }
  }
}

extension Request {
  /// - Returns: nil for what cannot be a request.
  fileprivate init?(_ call: SocketCall, to authority: String?) {
    guard let method = HTTPRequest.Method(call.verb), call.path.first == "/", call.path.utf8.count <= pathBytesMax,
      call.path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), call.headers.count <= SocketCall.headersMax
    else { return nil }
    var fields = HTTPFields()
    for header in call.headers {
      guard let field = HTTPField(line: header) else { return nil }
      fields.append(field)
    }
    // The message's own length counts, and who brought it is known.
    for name in ownNames { fields[name] = nil }
    fields[.contentLength] = String(call.body?.readableBytes ?? 0)
    // Before clients sent headers, all bodies were JSON.
    if call.body != nil, fields[.contentType] == nil { fields[.contentType] = "application/json" }
    self.init(
      head: HTTPRequest(method: method, scheme: nil, authority: authority, path: call.path, headerFields: fields),
      body: RequestBody(buffer: call.body ?? ByteBuffer()))
  }
}

private let pathBytesMax = 16 << 10
private let ownNames: [HTTPField.Name] = [.contentLength, .transferEncoding, .connection, .upgrade, .expect]

extension HTTPField {
  /// Reads `name:value`, with or without space between.
  fileprivate init?(line: String) {
    // By bytes: in a text a character of the value may join the colon.
    guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")), let name = HTTPField.Name(String(line[..<colon]))
    else { return nil }
    let value = String(Substring(line.utf8[colon...].dropFirst().drop { $0 == 0x20 || $0 == 0x09 }))
    guard HTTPField.isValidValue(value) else { return nil }
    self.init(name: name, value: value)
  }
}

extension SocketAnswer {
  /// Collects the whole body. - Throws: whatever its writer throws; `TooLarge`.
  fileprivate init(_ response: Response) async throws {
    let collected = CollectedBody()
    try await response.body.write(collected)
    self.init(
      status: response.status.code, message: response.status.reasonPhrase,
      headers: response.headers.map { "\($0.name.rawName):\($0.value)" }, body: collected.buffer)
  }
}

/// The body of an answer, as far as a socket's message may hold it.
private final class CollectedBody: ResponseBodyWriter {
  struct TooLarge: Error {}

  private(set) var buffer = ByteBuffer()

  func write(_ part: ByteBuffer) async throws {
    guard part.readableBytes <= Self.bytesMax - buffer.readableBytes else { throw TooLarge() }
    var part = part
    if buffer.readableBytes == 0 { buffer = part } else { buffer.writeBuffer(&part) }
  }

  func finish(_ trailingHeaders: HTTPFields?) async throws {}

  /// The largest answer but for blobs: a directory look-up with all that a bucket allows.
  private static let bytesMax = 4 << 20
}
