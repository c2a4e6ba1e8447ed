import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import RelayCore
import RelayHTTP

/// `/external/ws/notifications`: events for an account's server, over SOAP 1.1.
struct WebServiceController: Sendable {
  private static let path = "/external/ws/notifications"

  let methods: NotificationMethods
  let lookups: LookupGuard
  let isSecure: Bool
  let logger: Logger

  func addRoutes(to router: Router<NotificationContext>) {
    router.resource(
      RouterPath(stringLiteral: Self.path),
      [
        (.post, { request, context async throws(Problem) in try await received(request, context) }),
        (.get, { request, _ async throws(Problem) in try description(request) }),
      ])
  }

  /// `?wsdl` alone: anything else is not to be had by GET.
  private func description(_ request: Request) throws(Problem) -> Response {
    guard request.uri.query?.lowercased() == "wsdl" else { throw Problem(.notFound) }
    let host = request.head.authority ?? "localhost"
    return Self.response(.ok, WSDL.document(url: "\(isSecure ? "https" : "http")://\(host)\(Self.path)"))
  }

  private func received(_ request: Request, _ context: NotificationContext) async throws(Problem) -> Response {
    let body = try await request.body(as: "text/xml", max: NotificationsController.requestBytesMax)
    let asked: SOAPRequest
    do throws(SOAPRequest.Fault) {
      asked = try SOAPRequest(Array(body.readableBytesView))
    } catch {
      NotificationCounters.requested("web-service", result: "fault")
      return Self.response(.internalServerError, SOAPAnswer.clientFault(error))
    }
    let key = lookups.key(of: request, context)
    guard await lookups.mayFail(key) else { return LookupGuard.refusal }
    let code: NotificationCode
    do throws(MethodFailure) {
      let (account, events) = try await events(asked, from: lookups.share(of: key))
      await lookups.isNoFailure(key)
      NotificationCounters.requested("web-service", result: "0")
      return Self.response(.ok, SOAPAnswer.response(nil, events, of: account))
    } catch {
      // Stays charged as a failure, as of the other interface.
      guard let known = error.code(of: "web-service", logger) else { return LookupGuard.busy }
      code = known
    }
    NotificationCounters.requested("web-service", result: "\(code.rawValue)")
    if !code.isFailedLookUp { await lookups.isNoFailure(key) }
    return Self.response(.ok, SOAPAnswer.response(code))
  }

  /// In the order of the codes, as `received`.
  private func events(
    _ asked: SOAPRequest, from address: LimitKey?
  ) async throws(MethodFailure) -> (NotificationUser, [NotificationEvent]) {
    guard let user = asked.user else { throw .refused(.userMissing) }
    guard !user.isEmpty else { throw .refused(.userEmpty) }
    guard let password = asked.password else { throw .refused(.passwordMissing) }
    guard !password.isEmpty else { throw .refused(.passwordEmpty) }
    let account = try await methods.sender(user, password: password, from: address)
    let after = try methods.refusing { () throws(NotificationCode) in
      guard let text = asked.lastMessageNumber.map({ String($0.trimmingXMLSpace) }), !text.isEmpty else {
        throw .messageNumberMissing
      }
      guard FormParameters.isNumber(text), let number = Int64(text) else { throw .invalidMessageNumber }
      return number
    }
    return (account, try await methods.events(of: account, after: after))
  }

  private static func response(_ status: HTTPResponse.Status, _ xml: String) -> Response {
    Response(
      status: status, headers: [.contentType: "text/xml; charset=utf-8", .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: xml)))
  }
}

extension String {
  /// Documents are written over several lines.
  fileprivate var trimmingXMLSpace: Substring {
    var rest = self[...]
    while let first = rest.first, first.isWhitespace { rest = rest.dropFirst() }
    while let last = rest.last, last.isWhitespace { rest = rest.dropLast() }
    return rest
  }
}
