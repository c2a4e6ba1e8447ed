import TestTags
import Testing

@testable import PushGateway

/// The fate of requests whose caller leaves, or that are still open when the gateway stops.
@Suite(.tags(.unit)) struct OpenRequestsTests {
  /// Stands for a connection.
  private final class Connection: Sendable {}

  @Test func `a request that begins after all were given up is cancelled at once`() async {
    let (open, connection) = (OpenRequests(), Connection())
    #expect(await open.serve(over: ObjectIdentifier(connection)) { Task.isCancelled } == false)
    #expect(!open.isStopped)
    open.giveUpAll()
    #expect(open.isStopped)
    let wasCancelled = await open.serve(over: ObjectIdentifier(connection)) { await Self.isCancelledWithin(600) }
    #expect(wasCancelled)
  }

  @Test func `requests under way are cancelled with all others`() async {
    let (open, connection) = (OpenRequests(), Connection())
    let (begun, telling) = AsyncStream.makeStream(of: Void.self)
    let request = Task {
      await open.serve(over: ObjectIdentifier(connection)) {
        telling.finish()
        return await Self.isCancelledWithin(600)
      }
    }
    for await _ in begun {}
    open.giveUpAll()
    #expect(await request.value)
  }

  /// The work begins before the call that began it goes on: what comes meanwhile must not be lost.
  @Test func `a request that is given up while it begins is cancelled`() async {
    let (open, connection) = (OpenRequests(), Connection())
    let wasCancelled = await open.serve(over: ObjectIdentifier(connection)) {
      open.giveUpAll()
      return await Self.isCancelledWithin(600)
    }
    #expect(wasCancelled)
  }

  private static func isCancelledWithin(_ seconds: Int) async -> Bool {
    do {
      try await Task.sleep(for: .seconds(seconds))
      return false
    } catch {
      return true
    }
  }
}
