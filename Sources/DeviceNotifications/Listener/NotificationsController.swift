import HTTPTypes
package import Hummingbird
import Logging
import NIOCore
package import RelayCore
import RelayHTTP

/// `/external/notifications/…`: parameters in, lines or JSON out.
struct NotificationsController: Sendable {
  /// Bytes of a request, its URL included.
  static let requestBytesMax = 64 << 10
  static let formType = "application/x-www-form-urlencoded"

  let methods: NotificationMethods
  let lookups: LookupGuard
  let logger: Logger

  private typealias Method = @Sendable (FormParameters, LimitKey?) async throws(MethodFailure) -> NotificationAnswer

  func addRoutes(to router: Router<NotificationContext>) {
    let methods = methods
    add("subscribe", to: router) { parameters, _ async throws(MethodFailure) in try await methods.subscribe(parameters)
    }
    add("updatekey", to: router) { parameters, _ async throws(MethodFailure) in try await methods.updateKey(parameters)
    }
    add("unsubscribe", to: router) { parameters, _ async throws(MethodFailure) in
      try await methods.unsubscribe(parameters, fromAll: false)
    }
    add("unsubscribeall", to: router) { parameters, _ async throws(MethodFailure) in
      try await methods.unsubscribe(parameters, fromAll: true)
    }
    add("get", to: router) { parameters, _ async throws(MethodFailure) in try await methods.get(parameters) }
    add("send", to: router) { parameters, address async throws(MethodFailure) in
      try await methods.send(parameters, from: address)
    }
    add("received", to: router) { parameters, address async throws(MethodFailure) in
      try await methods.received(parameters, from: address)
    }
  }

  private func add(_ name: String, to router: Router<NotificationContext>, _ method: @escaping Method) {
    let handler: Handler<NotificationContext> = { request, context async throws(Problem) in
      try await answer(name, request, context, method)
    }
    router.resource(RouterPath(stringLiteral: EventWords.base + "/" + name), [(.get, handler), (.post, handler)])
  }

  private func answer(
    _ name: String, _ request: Request, _ context: NotificationContext, _ method: Method
  ) async throws(Problem) -> Response {
    let parameters = try await parameters(of: request)
    let form: AnswerForm = request.wantsJSON ? .json : .lines
    let key = lookups.key(of: request, context)
    guard await lookups.mayFail(key) else { return LookupGuard.refusal }
    let made = Made(name, parameters)
    if let made, await !lookups.mayMake(made, key) {
      await lookups.isNoFailure(key)
      return made.refusal
    }
    let code: NotificationCode
    do throws(MethodFailure) {
      let answer = try await method(parameters, lookups.share(of: key))
      NotificationCounters.requested(name, result: "A")
      await lookups.isNoFailure(key)
      return Self.response(form.write(answer), form)
    } catch {
      // Stays charged as a failure: else whoever keeps the passwords' queue full were bounded by nothing.
      guard let known = error.code(of: name, logger) else { return LookupGuard.busy }
      code = known
    }
    NotificationCounters.requested(name, result: "\(code.rawValue)")
    if let made { await lookups.hasNotMade(made, key) }
    if !code.isFailedLookUp { await lookups.isNoFailure(key) }
    return Self.response(form.write(code), form)
  }

  private func parameters(of request: Request) async throws(Problem) -> FormParameters {
    let query = request.uri.query ?? ""
    let room = Self.requestBytesMax - request.uri.string.utf8.count
    guard room >= 0 else { throw Problem(.bodyTooLarge) }
    guard request.method == .post else { return FormParameters(query: query) }
    let body = try await request.body(as: Self.formType, max: room)
    return FormParameters(query: query, body: Array(body.readableBytesView))
  }

  private static func response(_ bytes: [UInt8], _ form: AnswerForm) -> Response {
    Response(
      status: .ok,
      headers: [
        .contentType: form == .json ? "application/json" : "text/plain; charset=utf-8", .cacheControl: "no-store",
      ],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}

extension MethodFailure {
  /// The code that the caller is told. A fault of ours is told to the operator.
  /// - Returns: nil if too many passwords are being checked, for which the interface has no code.
  func code(of method: String, _ logger: Logger) -> NotificationCode? {
    switch self {
    case .refused(let code): return code
    case .busy:
      NotificationCounters.requested(method, result: "busy")
      return nil
    case .failed(let error):
      logger.warning("a device notification request failed", metadata: ["method": "\(method)", "error": "\(error)"])
      return .unknownError
    case .accountFull:
      logger.warning("an account of device notifications has as many recipients as it may")
      return .unknownError
    }
  }
}

extension Request {
  /// Whether `application/json` is among what is accepted.
  fileprivate var wantsJSON: Bool {
    headers[values: .accept].contains { value in
      value.split(separator: ",").contains { type in
        type.prefix { $0 != ";" }.trimmingSpaces.lowercased() == "application/json"
      }
    }
  }
}

/// The context of every request of device notifications.
package struct NotificationContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// The holder of the connection; nil for a socket of the file system.
  package let direct: ClientAddress?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    direct = source.channel.remoteAddress.flatMap(ClientAddress.init)
  }
}
