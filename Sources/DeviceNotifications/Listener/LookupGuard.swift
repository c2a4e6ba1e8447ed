import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Bounds how often one client address may be wrong about names, passwords and numbers, and how many recipients it makes.
struct LookupGuard: Sendable {
  let limiter: any RateLimiter
  let proxies: ForwardedMiddleware

  /// Whom a request is charged to; nil for nobody.
  func key(of request: Request, _ context: NotificationContext) -> LimitKey? {
    proxies.origin(of: context.direct, request.headers).address.map { LimitKey($0) }
  }

  /// Before anything is looked up, a failure is charged: whoever may fail no more learns nothing, not even of a success,
  /// however many requests come at once.
  /// - Returns: whether the request may go on; then `isNoFailure` follows unless it failed.
  func mayFail(_ key: LimitKey?) async -> Bool {
    guard let key else { return true }
    return await limiter.take(1, from: .notificationLookups, key: key) == .allowed
  }

  /// Gives back what `mayFail` has charged.
  func isNoFailure(_ key: LimitKey?) async {
    guard let key else { return }
    _ = await limiter.take(-1, from: .notificationLookups, key: key)
  }

  /// Charges a new recipient: whoever knows an account's name can make some.
  func mayRegister(_ key: LimitKey?) async -> Bool {
    guard let key else { return true }
    return await limiter.take(1, from: .notificationSubscriptions, key: key) == .allowed
  }

  /// There was no new recipient after all.
  func hasNotRegistered(_ key: LimitKey?) async {
    guard let key else { return }
    _ = await limiter.take(-1, from: .notificationSubscriptions, key: key)
  }

  /// 429.
  static var refusal: Response { refusal("Too many failed requests: try again in a minute.\n") }
  /// 429.
  static var subscriptionRefusal: Response { refusal("Too many new recipients: try again in some minutes.\n") }

  private static func refusal(_ text: String) -> Response {
    Response(
      status: .tooManyRequests,
      headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store", .retryAfter: "60"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}
