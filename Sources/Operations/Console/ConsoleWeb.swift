// The console's use of HTTP: headers, cookies, forms, answers.

import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Every answer tells the browser to take nothing from elsewhere, to show the page in no frame, and to keep nothing.
struct ConsoleHeaders: RouterMiddleware {
  typealias Context = OperatorContext

  func handle(
    _ request: Request, context: OperatorContext, next: (Request, OperatorContext) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    for (name, value) in Self.fields { response.headers[name] = value }
    return response
  }

  private static let fields: [(HTTPField.Name, String)] =
    [
      (
        .contentSecurityPolicy,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
          + "base-uri 'none'; frame-ancestors 'none'"
      ),
      (.xContentTypeOptions, "nosniff"), (.cacheControl, "no-store"),
    ]
    + [
      // With `no-referrer` a browser would hide the origin of the console's own forms too.
      ("Referrer-Policy", "same-origin"), ("Cross-Origin-Opener-Policy", "same-origin"),
      ("Cross-Origin-Resource-Policy", "same-origin"),
    ].compactMap { name, value in HTTPField.Name(name).map { ($0, value) } }
}

/// The session's cookie: no script reads it, no other site's page sends it.
enum ConsoleCookie {
  private static let name = "relay-console"
  private static let attributes = "; Path=/console; HttpOnly; SameSite=Strict"

  static func field(_ value: String) -> String {
    "\(name)=\(value)\(attributes); Max-Age=\(Int(ConsoleSessions.lengthMax / .seconds(1)))"
  }
  static let gone = "\(name)=\(attributes); Max-Age=0"

  static func value(of request: Request) -> String? {
    for field in request.headers[values: .cookie] {
      for pair in field.split(separator: ";") {
        let pair = pair.trimming { $0 == " " }
        if pair.hasPrefix("\(name)=") { return String(pair.dropFirst(name.count + 1)) }
      }
    }
    return nil
  }
}

extension Substring {
  fileprivate func trimming(_ isSpace: (Character) -> Bool) -> Substring {
    var rest = self
    while let first = rest.first, isSpace(first) { rest.removeFirst() }
    while let last = rest.last, isSpace(last) { rest.removeLast() }
    return rest
  }
}

/// A form as a browser posts it.
struct ConsoleForm: Sendable {
  private let fields: [String: String]

  /// The form of a page that is only read.
  init() { fields = [:] }

  /// - Throws: a refusal of forms that come from another site's page, and of what is none.
  init(of request: Request) async throws {
    if let origin = request.headers[.origin] {
      let host = origin.firstMatch(of: /^[a-z]+:\/\/(.+)$/)?.output.1
      guard let host, host == request.head.authority?[...] else {
        throw APIProblem(.forbidden, "foreign-origin", "The form came from another site's page.")
      }
    }
    let body = try await request.body(as: "application/x-www-form-urlencoded", max: Self.bytesMax)
    fields = try URLEncodedFormDecoder().decode([String: String].self, from: String(buffer: body))
  }

  subscript(_ name: String) -> String? { fields[name] }

  private static let bytesMax = 4_096
}

extension Response {
  static func page(_ status: HTTPResponse.Status, _ text: String) -> Response {
    Response(
      status: status, headers: [.contentType: "text/html; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }

  static func asset(_ text: String, _ type: String) -> Response {
    Response(status: .ok, headers: [.contentType: type], body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }

  /// - Parameter cookie: a whole `Set-Cookie`.
  static func seeOther(_ path: String, cookie: String? = nil) -> Response {
    var headers: HTTPFields = [.location: path]
    if let cookie { headers[.setCookie] = cookie }
    return Response(status: .seeOther, headers: headers)
  }
}
