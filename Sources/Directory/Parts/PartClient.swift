package import AsyncHTTPClient
import NIOCore
import NIOHTTP1
package import NIOSSL
package import RelayCore
import RelayHTTP
import RelayWork

/// Why a process that is to hold a part gave no answer. Names no token.
package enum PartFailure: Error, Equatable, CustomStringConvertible {
  /// The connection could not be made, or ended. The words are an operator's.
  case unreachable(String)
  case timedOut
  /// The process is not of this store, or this one's key is old.
  case unauthorized
  /// It has another part.
  case otherPart
  /// Its directory is of an older state of the store.
  case outdated
  /// It is starting, or stopping.
  case notReady
  /// The answer is none.
  case foreign(status: Int)

  package var description: String {
    switch self {
    case .unreachable(let words): words
    case .timedOut: "no answer in time"
    case .unauthorized: "it takes this process for a stranger: does it use the same store?"
    case .otherPart: "it holds another part"
    case .outdated: "its directory is of an older state of the store: does it use the same one?"
    case .notReady: "it is not ready yet"
    case .foreign(let status): "what answers there is no part of a directory (status \(status))"
    }
  }
}

/// Asks processes that hold parts: a POST each, over connections that are kept.
package struct PartClient: Sendable {
  /// A process, when it was looked at.
  package struct Look: Sendable, Equatable {
    /// The contacts that it holds.
    package let entries: Int
  }

  private let http: HTTPClient
  private let authorization: String
  private let tls: TLSConfiguration?
  private let limit: Duration

  package static let path = "/v1/directory-part"

  /// - Parameters:
  ///   - http: the caller's, who shuts it down.
  ///   - key: that all processes of the store share (`ServerKeyName.directoryParts`).
  ///   - tls: how certificates are looked at; nil: as `http` does.
  ///   - limit: until an answer is there.
  package init(
    _ http: HTTPClient, key: SecretBytes, tls: TLSConfiguration? = nil, limit: Duration = .seconds(2)
  ) {
    self.http = http
    self.tls = tls
    authorization = Self.authorization(by: key)
    self.limit = limit
  }

  /// One of the event loops that answers arrive on.
  var loop: any EventLoop { http.eventLoopGroup.next() }

  static func authorization(by key: SecretBytes) -> String { "Bearer " + Base64.encode(key.bytes, padded: false) }

  /// Asks without a question.
  /// - Parameter url: of the process, as `http://HOST:PORT`.
  package func look(at url: String, for part: DirectoryPartition) async throws(PartFailure) -> Look {
    Look(entries: try await ask(PartQuestions(of: part), at: url).entries)
  }

  /// - Parameter body: the bytes of `questions`, where they are at hand.
  func ask(_ questions: PartQuestions, _ body: ByteBuffer? = nil, at url: String) async throws(PartFailure)
    -> PartAnswers
  {
    let body = body ?? questions.bytes
    // The client's own deadline ends with the head of the answer; this one holds for its body, too.
    let outcome = await TimeLimit.run(limit) { [self] () async -> Result<ByteBuffer, PartFailure> in
      do throws(PartFailure) { return .success(try await post(body, to: url + Self.path)) } catch {
        return .failure(error)
      }
    }
    guard let outcome else { throw .timedOut }
    guard let answers = PartAnswers(try outcome.get(), to: questions) else { throw .foreign(status: 200) }
    return answers
  }

  private func post(_ body: ByteBuffer, to url: String) async throws(PartFailure) -> ByteBuffer {
    var request = HTTPClientRequest(url: url)
    request.method = .POST
    request.headers.add(name: "Authorization", value: authorization)
    request.body = .bytes(body)
    if let tls { request.tlsConfiguration = tls }
    do {
      let response = try await http.execute(request, timeout: TimeAmount(limit))
      switch response.status {
      case .ok: return try await response.body.collect(upTo: PartAnswers.bytesMax)
      case .unauthorized: throw PartFailure.unauthorized
      case .conflict: throw PartFailure.otherPart
      case .serviceUnavailable: throw PartFailure.notReady
      default: throw PartFailure.foreign(status: Int(response.status.code))
      }
    } catch let failure as PartFailure {
      throw failure
    } catch let error as HTTPClientError
      where error == .deadlineExceeded || error == .readTimeout || error == .connectTimeout
    {
      throw .timedOut
    } catch let error as HTTPClientError where error == .remoteConnectionClosed {
      throw .unreachable("the connection ended")
    } catch {
      throw .unreachable(FaultWords.brief(error))
    }
  }
}
