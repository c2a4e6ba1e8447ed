import NIOCore

@testable import RelayHTTP

/// Frames from clients and from servers. The first byte says how the rest is cut: what comes in pieces must be read as
/// what comes at once.
func fuzzWebSocket(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  if selector >= 192 { return fuzzServerFrames(body) }
  let whole = events(of: body, inPiecesOf: max(1, body.count))
  demand(events(of: body, inPiecesOf: 1 + selector % 16) == whole, "pieces are read as the whole")
}

/// A small one, so that inputs reach it.
let messageBytesMax = 200

private func events(of body: [UInt8], inPiecesOf size: Int) -> [String] {
  var reader = FrameReader(messageBytesMax: messageBytesMax)
  var found: [String] = []
  var start = 0
  while start < body.count {
    let end = min(body.count, start + size)
    var piece = ByteBuffer(bytes: body[start..<end])
    start = end
    while let event = reader.next(&piece) {
      found.append(describe(event))
      switch event {
      case .broken, .closed: return found
      case .message, .fragment, .ping, .pong: break
      }
    }
    demand(piece.readableBytes == 0, "all that came was taken")
  }
  return found
}

private func describe(_ event: FrameReader.Event) -> String {
  switch event {
  case .message(.text(let text)):
    demand(text.readableBytes <= messageBytesMax, "a message is bounded")
    demand(String(validating: text.readableBytesView, as: UTF8.self) != nil, "a text is UTF-8")
    return "text \(Array(text.readableBytesView))"
  case .message(.binary(let bytes)):
    demand(bytes.readableBytes <= messageBytesMax, "a message is bounded")
    return "binary \(Array(bytes.readableBytesView))"
  case .fragment(let count): return "fragment \(count)"
  case .ping(let bytes):
    demand(bytes.readableBytes <= 125, "a ping is short")
    return "ping \(Array(bytes.readableBytesView))"
  case .pong: return "pong"
  case .closed(let code): return "closed \(code ?? 0)"
  case .broken(let close): return "broken \(close.code)"
  }
}
