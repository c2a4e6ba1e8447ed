import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayCore

@testable import Relay
@testable import RelayHTTP

/// Our part of reading a request: its first bytes, its target, its query, its credentials, and the address it comes
/// from.
func fuzzHTTP(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  switch selector % 4 {
  case 0, 1: fuzzFirstRequest(body, inPiecesOf: 1 + selector / 4)
  case 2: fuzzTarget(body.text)
  default: fuzzFields(body.text)
  }
}

private func fuzzFirstRequest(_ body: [UInt8], inPiecesOf size: Int) {
  let whole = steps(of: body, inPiecesOf: max(1, body.count))
  demand(steps(of: body, inPiecesOf: size) == whole, "pieces are read as the whole")
}

private func steps(of body: [UInt8], inPiecesOf size: Int) -> String {
  var first = FirstRequest()
  var start = 0
  while start < body.count {
    let end = min(body.count, start + size)
    let step = first.received(ByteBuffer(bytes: body[start..<end])) { $0 == "/v1/websocket" || $0 == "/v1/websocket/" }
    start = end
    switch step {
    case .more: continue
    case .elsewhere(let all):
      demand(Array(all.readableBytesView) == Array(body[..<end]), "what is not for the door is handed on as it came")
      return "elsewhere"
    case .head(let head, let rest):
      demand(body[..<end].suffix(rest.readableBytes).elementsEqual(rest.readableBytesView), "nothing behind it is lost")
      return "head \(Array(head.readableBytesView))"
    }
  }
  return "more"
}

private func fuzzTarget(_ text: String) {
  let (path, query) = RequestTarget.split(text)
  demand(path.utf8.count + query.utf8.count <= text.utf8.count, "a target is cut, not made longer")
  if let decoded = PercentEncoding.decode(String(path)) {
    demand(decoded.utf8.count <= path.utf8.count, "decoding makes nothing longer")
    demand(path.utf8.contains(0) || !decoded.utf8.contains(0), "no escape becomes a NUL")
  }
  let origin = RequestOrigin(address: nil, isSecure: true)
  guard let login = SocketLogin(SocketRequest(path: path, query: query, headers: HTTPFields(), origin: origin)) else {
    return
  }
  demand(login.means != .header, "without a header nobody asks by it")
}

/// Lines of `NAME:VALUE`, as a parser hands fields on.
private func fuzzFields(_ text: String) {
  var headers = HTTPHeaders()
  var fields: [String: [String]] = [:]
  for line in text.split(separator: "\n").prefix(16) {
    let pair = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    // A parser lets no other names through, and NIO takes no others.
    guard pair.count == 2, pair[0].utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { continue }
    headers.add(name: String(pair[0]), value: String(pair[1]))
    fields[pair[0].lowercased(), default: []].append(String(pair[1]))
  }
  _ = SocketHandshake.refusal(of: HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: headers))
  if let credentials = BasicCredentials(header: fields["authorization"]?.first) {
    demand(BasicCredentials(creating: fields["authorization"]?.first) != nil, "a device's credentials can make it")
    demand(credentials.address.device.value > 0, "a device has a number")
  }
  guard let direct = ClientAddress(text: "10.0.0.1") else { return }
  let proxies = TrustedProxies(["10.0.0.0/8", "fd00::/8"].compactMap { AddressRange(text: $0) })
  let origin = proxies.origin(
    RequestOrigin(address: direct, isSecure: false), forwardedFor: fields["x-forwarded-for"] ?? [],
    forwardedProto: fields["x-forwarded-proto"] ?? [])
  demand(origin.address != nil, "who holds the connection is known at least")
  demand(!origin.charges(to: .messages).isEmpty, "everybody is charged")
}
