// A customer's server: real HTTP, with the answers that a test wants.

import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import Testing

final class EventServer: Sendable {
  struct Call: Sendable, Equatable {
    let method: String
    let target: String
    let contentType: String?
    let body: String
  }

  private struct State {
    var calls: [Call] = []
    var script: [Int] = []
  }

  let port: Int
  private let shared: Shared

  private final class Shared: Sendable {
    private let state = Mutex(State())
    var calls: [Call] { state.withLock { $0.calls } }
    func answer(_ statuses: [Int]) { state.withLock { $0.script += statuses } }
    func take(_ call: Call) -> Int {
      state.withLock { state in
        state.calls.append(call)
        return state.script.isEmpty ? 200 : state.script.removeFirst()
      }
    }
  }

  private init(port: Int, shared: Shared) {
    self.port = port
    self.shared = shared
  }

  var url: String { "http://127.0.0.1:\(port)/events" }
  var calls: [Call] { shared.calls }
  /// The statuses of the next calls; 200 behind them.
  func answer(_ statuses: Int...) { shared.answer(statuses) }

  static func with(
    isolation: isolated (any Actor)? = #isolation, _ body: (EventServer) async throws -> Void
  ) async throws {
    let shared = Shared()
    let router = Router()
    router.add(middleware: Answering(shared: shared))
    let (ports, found) = AsyncStream.makeStream(of: Int.self)
    let application = Application(
      responder: router.buildResponder(),
      configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { found.yield($0.localAddress?.port ?? 0) }, logger: .silent)
    let group = ServiceGroup(configuration: .init(services: [application], logger: .silent))
    let running = Task { try await group.run() }
    let port = try #require(await ports.first { _ in true })
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body(EventServer(port: port, shared: shared)))
    } catch {
      outcome = .failure(error)
    }
    await group.triggerGracefulShutdown()
    try await running.value
    try outcome.get()
  }

  private struct Answering: RouterMiddleware {
    typealias Context = BasicRequestContext
    let shared: Shared

    func handle(
      _ request: Request, context: BasicRequestContext,
      next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
      let body = try await request.body.collect(upTo: 1 << 20)
      let status = shared.take(
        Call(
          method: request.method.rawValue, target: request.uri.string, contentType: request.headers[.contentType],
          body: String(buffer: body)))
      var response = Response(status: .init(code: status))
      if status == 302 { response.headers[.location] = "/elsewhere" }
      return response
    }
  }
}
