import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// A request to a provider. Its address, headers and body are secrets: never logged.
struct PushRequest: Sendable {
  /// nil for what is no URL: nobody is asked.
  let url: PushURL?
  /// Names are in lower case. Host and length are none of them.
  var headers: HTTPHeaders
  var body: [UInt8]
}

struct PushAnswer: Sendable {
  let status: Int
  let headers: HTTPHeaders
  /// nil when it was larger than `PushClient.answerBytesMax`, or did not come whole: the status counts nevertheless.
  let body: ByteBuffer?
}

/// HTTP to one provider on connections of its own, which are closed when the last reference is gone: a request under
/// way holds one, so a client can be replaced at any time.
///
/// NIO's codecs without a client on top of them (docs/decisions/2026-11-26-push-connections.md).
///
/// One connection of HTTP/2 carries everything, and stays in use while its other end is silent; so silence in a row
/// makes it take a new one. So does its loss: what was on it is one failure, and may be repeated at once on another.
final class PushClient: Sendable {
  struct Settings: Sendable {
    var speaksHTTP2 = false
    /// Connections of HTTP/1.1; a request waits for one. HTTP/2 has one connection.
    var connectionsMax = 20
    /// Beside the system's.
    var trust: [NIOSSLCertificate] = []
    var chain: [NIOSSLCertificate] = []
    var key: NIOSSLPrivateKey?
    /// Host names, and the addresses to connect to in their place.
    var addresses: [String: String] = [:]
    /// Beyond any attempt's deadline, which ends it first: it also bounds how long a request may wait for a connection
    /// that others use, which says nothing of the provider.
    var connectTimeout = Duration.seconds(60)
    var idleTimeout = Duration.seconds(60)
    /// Silence speaks against a connection of HTTP/2 only where a request had that much time.
    var patience = Duration.seconds(5)
  }

  private struct State {
    var connections: PushConnections
    /// Requests in a row that had no answer in time.
    var silences = 0
  }

  /// Answers are a few hundred bytes.
  static let answerBytesMax = 16 << 10
  private static let silencesMax = 3

  private let settings: Settings
  private let tls: PushTLS
  private let state: Mutex<State>

  init(_ settings: Settings) {
    let tls = PushTLS(settings)
    self.settings = settings
    self.tls = tls
    state = Mutex(State(connections: PushConnections(settings, tls)))
  }

  func post(_ request: PushRequest, deadline: ContinuousClock.Instant) async throws(PushFailure) -> PushAnswer {
    let connections = connections()
    let isPatient = deadline - .now >= settings.patience
    do throws(PushFailure) {
      let answer = try await connections.post(request, deadline: deadline)
      note(isSilent: false, connections)
      return answer
    } catch {
      if isPatient, error == .timedOut { note(isSilent: true, connections) }
      guard settings.speaksHTTP2, error == .lost || error == .notTaken else { throw error }
      throw replace(connections, after: error)
    }
  }

  /// The connections to use: never ones that take no more requests.
  private func connections() -> PushConnections {
    state.withLock { state in
      if state.connections.end.hasCome { state = State(connections: PushConnections(settings, tls)) }
      return state.connections
    }
  }

  private func note(isSilent: Bool, _ connections: PushConnections) {
    state.withLock { state in
      guard state.connections === connections else { return }
      state.silences = isSilent ? state.silences + 1 : 0
      guard settings.speaksHTTP2, state.silences >= Self.silencesMax else { return }
      state = State(connections: PushConnections(settings, tls))
    }
  }

  /// The connection ended under a request. - Returns: what that request is told.
  private func replace(_ connections: PushConnections, after failure: PushFailure) -> PushFailure {
    let told = connections.end.tell(failure)
    // One stream that is refused says nothing of the others.
    guard failure == .lost || connections.end.hasCome else { return told }
    state.withLock { state in
      if state.connections === connections { state = State(connections: PushConnections(settings, tls)) }
    }
    return told
  }
}
