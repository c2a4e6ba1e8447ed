import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Bounds how often one client address may be wrong about names, passwords and numbers.
struct LookupGuard: Sendable {
  let limiter: any RateLimiter
  let proxies: ForwardedMiddleware

  /// Whom a request is charged to; nil for nobody.
  func key(of request: Request, _ context: NotificationContext) -> LimitKey? {
    proxies.origin(of: context.direct, request.headers).address.map { LimitKey($0) }
  }

  /// Before anything is looked up: whoever may fail no more learns nothing, not even of a success.
  func isExhausted(_ key: LimitKey?) async -> Bool {
    guard let key else { return false }
    return await limiter.space(in: .notificationLookups, key: key) < 1
  }

  /// - Returns: whether it was one too many.
  func failed(_ key: LimitKey?) async -> Bool {
    guard let key else { return false }
    return await limiter.take(1, from: .notificationLookups, key: key) != .allowed
  }

  /// 429.
  static var refusal: Response {
    Response(
      status: .tooManyRequests,
      headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store", .retryAfter: "60"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: "Too many failed requests: try again in a minute.\n")))
  }
}
