import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Bounds how often one client address may be wrong about names, passwords and numbers, and how many recipients it
/// makes.
struct LookupGuard: Sendable {
  let limiter: any RateLimiter
  let proxies: ForwardedMiddleware

  /// The origin that a request is charged to; nil if it is not charged.
  func key(of request: Request, _ context: NotificationContext) -> RequestOrigin? {
    let origin = proxies.origin(of: context.direct, request.headers)
    return origin.address == nil ? nil : origin
  }

  /// The share of the passwords' queue that a request takes: one customer's, whatever larger networks it is charged
  /// to.
  func share(of key: RequestOrigin?) -> LimitKey? { key?.address?.networks.first.map { LimitKey($0) } }

  /// Before anything is looked up, a failure is charged: whoever may fail no more learns nothing, not even of a
  /// success, however many requests come at once.
  /// - Returns: whether the request may go on; then `isNoFailure` follows unless it failed.
  func mayFail(_ key: RequestOrigin?) async -> Bool {
    guard let key else { return true }
    return await limiter.take(key.charges(1, to: .notificationLookups)) == .allowed
  }

  /// Gives back what `mayFail` has charged.
  func isNoFailure(_ key: RequestOrigin?) async {
    guard let key else { return }
    _ = await limiter.take(key.charges(-1, to: .notificationLookups))
  }

  /// Charges a new recipient, or another event: whoever knows an account's name can make some.
  func mayMake(_ made: Made, _ key: RequestOrigin?) async -> Bool {
    guard let key else { return true }
    return await limiter.take(key.charges(1, to: made.rule)) == .allowed
  }

  /// There was nothing new after all.
  func hasNotMade(_ made: Made, _ key: RequestOrigin?) async {
    guard let key else { return }
    _ = await limiter.take(key.charges(-1, to: made.rule))
  }

  /// 429.
  static var refusal: Response { refusal("Too many failed requests: try again in a minute.\n") }

  /// 429: nobody knows whether it was a failure.
  static var busy: Response { refusal("Too many passwords are being checked: try again in a second.\n", after: 1) }

  fileprivate static func refusal(_ text: String, after seconds: Int = 60) -> Response {
    Response(
      status: .tooManyRequests,
      headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store", .retryAfter: "\(seconds)"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}

/// A thing that a request makes, and that the store keeps.
enum Made {
  /// And the event of its subscription.
  case recipient
  case event

  /// - Returns: nil where the request makes neither.
  init?(_ method: String, _ parameters: FormParameters) {
    switch method {
    case "subscribe": self = parameters.hasNoRecipientID ? .recipient : .event
    case "unsubscribe", "unsubscribeall": self = .event
    default: return nil
    }
  }

  var rule: LimiterName {
    switch self {
    case .recipient: .notificationSubscriptions
    case .event: .notificationEvents
    }
  }

  /// 429.
  var refusal: Response {
    switch self {
    case .recipient: LookupGuard.refusal("Too many new recipients: try again in some minutes.\n")
    case .event: LookupGuard.refusal("Too many changes of subscriptions: try again in some minutes.\n")
    }
  }
}
