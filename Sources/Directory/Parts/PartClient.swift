import NIOCore
import NIOHTTP1
package import NIOSSL
package import RelayCore
import RelayHTTP
package import RelayWork

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

  static let connectionEnded = PartFailure.unreachable("the connection ended")

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

  private let connections: PartConnections
  private let authorization: String

  package static let path = "/v1/directory-part"

  /// - Parameters:
  ///   - key: that all processes of the store share (`ServerKeyName.directoryParts`).
  ///   - tls: how certificates are looked at; nil: as usual.
  ///   - limit: until an answer is there.
  package init(
    key: SecretBytes, tls: TLSConfiguration? = nil, limit: Duration = .seconds(2), resolver: HostResolver = .system()
  ) {
    connections = PartConnections(
      tls: tls ?? .makeClientConfiguration(), limit: TimeAmount(limit), resolver: resolver)
    authorization = Self.authorization(by: key)
  }

  /// The event loop that answers arrive on.
  var loop: any EventLoop { connections.loop }

  static func authorization(by key: SecretBytes) -> String { "Bearer " + Base64.encode(key.bytes, padded: false) }

  /// Asks without a question.
  package func look(at address: PartAddress) async throws(PartFailure) -> Look {
    Look(entries: try await ask(PartQuestions(of: address.part), at: address).entries)
  }

  /// - Parameter body: the bytes of `questions`, where they are at hand.
  func ask(_ questions: PartQuestions, _ body: ByteBuffer? = nil, at address: PartAddress) async throws(PartFailure)
    -> PartAnswers
  {
    let answer = try await post(body ?? questions.bytes, to: address)
    switch answer.status {
    case .ok:
      guard let answers = PartAnswers(answer.body, to: questions) else { throw .foreign(status: 200) }
      return answers
    case .unauthorized: throw .unauthorized
    case .conflict: throw .otherPart
    case .serviceUnavailable: throw .notReady
    default: throw .foreign(status: Int(answer.status.code))
    }
  }

  private func post(_ body: ByteBuffer, to address: PartAddress) async throws(PartFailure) -> PartAnswer {
    var head = HTTPRequestHead(version: .http1_1, method: .POST, uri: Self.path)
    head.headers = [
      "Host": address.authority, "Authorization": authorization, "Content-Length": "\(body.readableBytes)",
    ]
    do {
      return try await connections.post(body, head, to: address)
    } catch let failure as PartFailure {
      throw failure
    } catch ChannelError.connectTimeout {
      throw .timedOut
    } catch {
      throw .unreachable(FaultWords.brief(error))
    }
  }
}
