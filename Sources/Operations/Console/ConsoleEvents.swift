import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// `/console/events?page=NAME`: a page's part that changes, drawn anew every two seconds (server-sent events).
struct ConsoleEvents: Sendable {
  private let console: Console
  private let sessions: ConsoleSessions
  private let control: DrainControl
  private let streams = Streams()

  init(console: Console, sessions: ConsoleSessions, control: DrainControl) {
    self.console = console
    self.sessions = sessions
    self.control = control
  }

  @Sendable func stream(_ visit: ConsoleVisit) async throws -> Response {
    guard let page = visit.request.uri.queryParameters.get("page").flatMap({ ConsoleLivePage(rawValue: $0) }) else {
      throw APIProblem(.notFound, "no-page", "There is no such page.")
    }
    let (cookie, parts) = (ConsoleCookie.value(of: visit.request), visit.parts)
    let body = ResponseBody { writer in
      guard streams.enter() else {
        try await writer.write(ByteBuffer(string: "retry: 30000\n\n"))
        return try await writer.finish(nil)
      }
      defer { streams.leave() }
      let end = ContinuousClock.now + Self.lengthMax
      while !Task.isCancelled, !Task.isShuttingDownGracefully, !control.isDraining, .now < end {
        guard sessions.session(cookie, isUse: false) != nil else {
          try await writer.write(ByteBuffer(string: "event: leave\ndata:\n\n"))
          break
        }
        let text: String
        do {
          text = console.fragment(page.liveTemplate, try await page.values(console, parts))
        } catch {
          text = console.fragment(
            "fault", ["fault": (error as? ConsoleFault)?.description ?? APIProblem(error).message])
        }
        try await writer.write(ByteBuffer(string: Self.event("draw", text)))
        guard await Pause.for(Self.pause) else { throw CancellationError() }
      }
      try await writer.finish(nil)
    }
    return Response(status: .ok, headers: [.contentType: "text/event-stream"], body: body)
  }

  private static func event(_ name: String, _ text: String) -> String {
    let lines = text.split(whereSeparator: \.isNewline).map { "data: \($0)\n" }
    return "event: \(name)\n\(lines.joined())\n"
  }

  private static let pause = Duration.seconds(2)
  /// The browser asks again by itself.
  private static let lengthMax = Duration.seconds(3600)

  /// How many are open in this process.
  private final class Streams: Sendable {
    private let count = Mutex(0)
    private static let most = 32

    func enter() -> Bool {
      count.withLock { count in
        guard count < Self.most else { return false }
        count += 1
        return true
      }
    }
    func leave() { count.withLock { $0 -= 1 } }
  }
}
