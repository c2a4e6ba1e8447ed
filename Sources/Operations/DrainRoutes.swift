import HTTPTypes
package import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// The context of a request to the operator's listener: its address, and the holder of its token.
package struct OperatorContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// nil for a socket of the file system.
  let address: ClientAddress?
  /// Set by `OperatorGate`; nil outside of the operator API.
  var actor: AuditActor?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    address = source.channel.remoteAddress.flatMap(ClientAddress.init)
  }
}

/// `GET /drain` tells how far a drain has come, `POST /drain?over=SECONDS` begins one, as SIGTERM does.
///
/// The listener asks for no credentials, and stopping is more than looking: it is for callers on this host alone, and
/// for none that a web page in a browser could be made to be, which cannot send the header and cannot hide its origin.
struct DrainRoutes {
  let control: DrainControl

  func add(to router: Router<OperatorContext>) {
    router.get("/drain") { _, _ in state(.ok) }
    router.post("/drain", use: begin)
  }

  private func begin(_ request: Request, _ context: OperatorContext) -> Response {
    guard let address = context.address, Self.loopback.contains(where: { $0.contains(address) }) else {
      return refusal(.forbidden, "Only from the relay's own host: run `relay drain` there, or send it SIGTERM.")
    }
    guard request.headers[Self.header] == "1", request.headers[.origin] == nil else {
      return refusal(.forbidden, "Send the header `\(Self.header.rawName): 1`, and no Origin, as `relay drain` does.")
    }
    guard let seconds = Self.seconds(request.uri.queryParameters.get("over")) else {
      return refusal(
        .badRequest, "`over` is a whole number of seconds, \(Self.bounds.lowerBound) to \(Self.bounds.upperBound).")
    }
    guard control.drain(over: .seconds(seconds)) else {
      return refusal(.conflict, "It is draining already, over the window that it was given first.")
    }
    return state(.accepted)
  }

  /// Digits only: as the setting `drain.seconds`.
  private static func seconds(_ text: String?) -> Int? {
    guard let text, !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seconds = Int(text),
      bounds.contains(seconds)
    else { return nil }
    return seconds
  }

  private func state(_ status: HTTPResponse.Status) -> Response {
    let text = #"{"draining":\#(control.isDraining),"connections":\#(control.connections)}"#
    return Response(
      status: status, headers: [.contentType: "application/json"], body: .init(byteBuffer: ByteBuffer(string: text)))
  }

  private func refusal(_ status: HTTPResponse.Status, _ text: String) -> Response {
    Response(
      status: status, headers: [.contentType: "text/plain; charset=utf-8"],
      body: .init(byteBuffer: ByteBuffer(string: text + "\n")))
  }

  private static let bounds = 0...3600
  private static let header: HTTPField.Name = .init("X-Relay-Drain")!  // A constant, and a token.
  private static let loopback = ["127.0.0.0/8", "::1"].compactMap { AddressRange(text: $0) }
}
