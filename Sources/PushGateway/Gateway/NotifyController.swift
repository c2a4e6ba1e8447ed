import HTTPTypes
package import Hummingbird
import NIOCore
import OrderedCollections
import Push
import RelayCore
import RelayHTTP

/// The context of every request of the gateway.
package struct GatewayContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  let channel: any Channel

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    channel = source.channel
  }
}

/// `POST /_matrix/push/v1/notify` and `GET /health` (reference 2, 11).
struct NotifyController: Sendable {
  /// As the reference.
  private static let bodyBytesMax = 512 << 10
  /// A caller that sends a body bit by bit keeps the listener's idle timer from ever firing.
  private static let bodyLimit = Duration.seconds(30)

  let dispatcher: PushDispatcher
  let open: OpenRequests
  let openBytes: OpenBytes
  let deadline: Duration
  let metrics = GatewayMetrics()
  let time: PushTime

  func addRoutes(to router: Router<GatewayContext>) {
    router.resource("/_matrix/push/v1/notify", [(.post, { request, context in await notify(request, context) })])
    let health: Handler<GatewayContext> = { _, _ in .done }
    router.resource("/health", [(.get, health), (.head, health)])
  }

  private func notify(_ request: Request, _ context: GatewayContext) async -> Response {
    metrics.began()
    defer { metrics.ended() }
    let response: Response
    do throws(MatrixRefusal) {
      response = try await answer(request, context)
    } catch {
      response = error.response
    }
    metrics.answered(response.status.code)
    return response
  }

  private func answer(_ request: Request, _ context: GatewayContext) async throws(MatrixRefusal) -> Response {
    var taken = 0
    defer { openBytes.giveBack(taken) }
    let body = try await body(of: request, &taken)
    let notification: PushNotification
    do throws(NotifyFault) {
      notification = try PushNotification(body: body.readableBytesView)
    } catch {
      throw MatrixRefusal(error)
    }
    metrics.received(devices: notification.devices.count)
    let began = time.now()
    let answer = await open.serve(over: ObjectIdentifier(context.channel)) { [dispatcher, deadline] in
      await dispatcher.dispatch(notification, deadline: began + deadline)
    }
    let response = Self.response(answer)
    metrics.dispatched(response.status.code, took: time.now() - began)
    return response
  }

  private static func response(_ answer: NotifyAnswer) -> Response {
    switch answer {
    case .done(let rejected):
      .json(JSONValue.object(["rejected": .list(rejected.map { .text($0) })]).bytes(.compact))
    case .failed(let retryAfter):
      MatrixRefusal(
        .badGateway, "M_UNKNOWN", "Some devices could not be reached just now: try again.", retryAfter: retryAfter
      ).response
    }
  }

  /// The whole body, whatever type it was declared as.
  /// - Parameter taken: what was taken of `openBytes` for it, also when this throws.
  private func body(of request: Request, _ taken: inout Int) async throws(MatrixRefusal) -> ByteBuffer {
    if let length = request.declaredLength, length > Self.bodyBytesMax { throw .tooLarge }
    let deadline = ContinuousClock.now + Self.bodyLimit
    var collected = ByteBuffer()
    do {
      for try await var part in request.body {
        guard .now < deadline else { throw MatrixRefusal.broken }
        guard !open.isStopped else { break }
        guard part.readableBytes <= Self.bodyBytesMax - collected.readableBytes else { throw MatrixRefusal.tooLarge }
        guard openBytes.take(part.readableBytes) else { throw MatrixRefusal.busy }
        taken += part.readableBytes
        if collected.readableBytes == 0 { collected = part } else { collected.writeBuffer(&part) }
      }
    } catch let refusal as MatrixRefusal {
      throw refusal
    } catch {
      throw .broken
    }
    // The homeserver repeats it elsewhere.
    if open.isStopped { throw .busy }
    return collected
  }
}
