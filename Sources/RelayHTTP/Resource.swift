package import HTTPTypes
package import Hummingbird
package import RelayCore

/// Answers one request of one resource.
package typealias Handler<Context> = @Sendable (Request, Context) async throws(Problem) -> Response

/// The methods that a listener takes. The router knows a path only together with a method: any other one is not found.
private let methods: [HTTPRequest.Method] =
  [.get, .put, .post, .delete, .head, .patch, .options, .trace, .connect]
  + [
    "QUERY", "ACL", "BIND", "CHECKOUT", "COPY", "LINK", "LOCK", "M-SEARCH", "MSEARCH", "MERGE", "MKACTIVITY",
    "MKCALENDAR", "MKCOL", "MOVE", "NOTIFY", "PROPFIND", "PROPPATCH", "PURGE", "REBIND", "REPORT", "SEARCH", "SOURCE",
    "SUBSCRIBE", "UNBIND", "UNLINK", "UNLOCK", "UNSUBSCRIBE",
  ].compactMap { HTTPRequest.Method($0) }

/// Routes behind a look at the caller, who is told of a wrong method ahead of it: whoever it is.
package protocol GuardedRoutes {
  func refuse(at path: RouterPath, allowing allowed: [HTTPRequest.Method])
}

extension RouterMethods {
  /// Adds everything that stands under `path`; any other known method is answered with 405 (reference 1.1).
  ///
  /// A trailing slash makes no difference. Captures at one place of several paths must have one name.
  /// - Parameter elsewhere: methods that `part` adds for callers of another kind.
  package func resource(
    _ path: RouterPath, _ handlers: [(method: HTTPRequest.Method, handler: Handler<Context>)],
    elsewhere: [HTTPRequest.Method] = []
  ) {
    part(of: path, handlers)
    let allowed = handlers.map(\.method) + elsewhere
    if let guarded = self as? any GuardedRoutes {
      guarded.refuse(at: path, allowing: allowed)
    } else {
      refuse(at: path, allowing: allowed)
    }
  }

  /// Answers methods other than `allowed` with 405.
  package func refuse(at path: RouterPath, allowing allowed: [HTTPRequest.Method]) {
    for method in methods where !allowed.contains(method) {
      on(path, method: method) { _, _ -> Response in
        var response = Problem(.methodNotAllowed).response
        response.headers[.allow] = allowed.map(\.rawValue).joined(separator: ", ")
        return response
      }
    }
  }

  /// Adds what stands under `path` beside the `resource` there, which names these methods.
  package func part(of path: RouterPath, _ handlers: [(method: HTTPRequest.Method, handler: Handler<Context>)]) {
    for (method, handler) in handlers {
      on(path, method: method) { request, context in try await handler(request, context) }
    }
  }
}

extension RequestContext {
  /// A path segment after percent-decoding. A `+` stays a `+` (reference 1.1).
  /// - Throws: `.notFound` when the segment is missing or does not decode to UTF-8.
  package func segment(_ name: String) throws(Problem) -> String {
    guard let raw = parameters.get(name), let text = PercentEncoding.decode(raw) else { throw Problem(.notFound) }
    return text
  }

  /// A segment that must be a number. - Throws: `.notFound` for anything else.
  package func number(_ name: String) throws(Problem) -> AccountNumber {
    guard let number = AccountNumber(e164: try segment(name)) else { throw Problem(.notFound) }
    return number
  }
}

extension Request {
  /// The `relay` of the query; an empty one counts as absent (reference 1.6).
  /// - Throws: `.notFound` for what cannot be a relay's name.
  package func relay() throws(Problem) -> RelayName? {
    guard let text = uri.queryParameters.get("relay"), !text.isEmpty else { return nil }
    guard let relay = RelayName(text) else { throw Problem(.notFound) }
    return relay
  }
}

/// Percent-decoding of path segments and query values (RFC 3986, 2.1), `+` left alone.
package enum PercentEncoding {
  /// - Returns: nil for a broken escape, invalid UTF-8, or an escaped NUL.
  package static func decode(_ text: String) -> String? {
    guard text.utf8.contains(UInt8(ascii: "%")) else { return text }
    var output: [UInt8] = []
    var bytes = text.utf8.makeIterator()
    while let byte = bytes.next() {
      guard byte == UInt8(ascii: "%") else {
        output.append(byte)
        continue
      }
      guard let high = bytes.next().flatMap(hexValue), let low = bytes.next().flatMap(hexValue) else { return nil }
      let value = high << 4 | low
      guard value != 0 else { return nil }
      output.append(value)
    }
    return String(validating: output, as: UTF8.self)
  }

  private static func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x41 + 10
    case 0x61...0x66: byte - 0x61 + 10
    default: nil
    }
  }
}
