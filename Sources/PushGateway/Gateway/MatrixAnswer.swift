import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import OrderedCollections
import RelayCore
import RelayHTTP

/// A refusal as Matrix writes it: `{"errcode": …, "error": …}`.
struct MatrixRefusal: Error, Sendable, Equatable {
  let status: HTTPResponse.Status
  let code: String
  /// One sentence for the person who reads it; never holds request data.
  let text: String
  var retryAfter: Duration?

  init(_ status: HTTPResponse.Status, _ code: String, _ text: String, retryAfter: Duration? = nil) {
    self.status = status
    self.code = code
    self.text = text
    self.retryAfter = retryAfter
  }

  static let unrecognized = MatrixRefusal(.notFound, "M_UNRECOGNIZED", "There is no such resource.")
  static let wrongMethod = MatrixRefusal(
    .methodNotAllowed, "M_UNRECOGNIZED", "This resource does not know that method.")
  static let tooLarge = MatrixRefusal(.contentTooLarge, "M_TOO_LARGE", "The body has more than 512 KiB.")
  static let broken = MatrixRefusal(.badRequest, "M_NOT_JSON", "The body did not arrive whole and in time.")
  static let busy = MatrixRefusal(
    .serviceUnavailable, "M_UNKNOWN", "The gateway has too much to do just now: try again.", retryAfter: .seconds(10))
  static let internalError = MatrixRefusal(.internalServerError, "M_UNKNOWN", "The gateway failed.")

  init(_ fault: NotifyFault) { self.init(.badRequest, fault.code.rawValue, fault.text) }

  var response: Response {
    let body = JSONValue.object(["errcode": .text(code), "error": .text(text)]).bytes(.compact)
    var response = Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    if let retryAfter { response.headers[.retryAfter] = String(max(1, Int64((retryAfter / .seconds(1)).rounded(.up)))) }
    return response
  }
}

/// Turns every error into a Matrix answer, and what the router has no route for as well.
struct MatrixErrors: RouterMiddleware {
  func handle(
    _ request: Request, context: GatewayContext, next: (Request, GatewayContext) async throws -> Response
  ) async throws -> Response {
    let response: Response
    do {
      let answer = try await next(request, context)
      if answer.status == .methodNotAllowed {
        var refusal = MatrixRefusal.wrongMethod.response
        refusal.headers[.allow] = answer.headers[.allow]
        response = refusal
      } else {
        response = answer
      }
    } catch let refusal as MatrixRefusal {
      response = refusal.response
    } catch let error as HTTPError where error.status == .notFound {
      response = MatrixRefusal.unrecognized.response
    } catch {
      // The type says enough to find the place; the text could carry request data.
      context.logger.error("push request failed", metadata: ["error": "\(type(of: error))"])
      response = MatrixRefusal.internalError.response
    }
    // A body behind the head would be taken for the beginning of the next answer.
    return request.method == .head ? response.createHeadResponse() : response
  }
}
