import NIOCore

/// Finds the beginnings and ends of HTTP/2 frames in a client's bytes (RFC 9113, 4.1). Their content is NIOHTTP2's
/// business.
struct FrameBoundaries {
  private var prefaceLeft = 24
  private var header: [UInt8] = []
  private var payloadLeft = 0
  private var kind: UInt8 = 0
  /// Frames that continue the fields of a request are to follow.
  private var isInFields = false
  /// Whether the fields of a request have come whole.
  private(set) var hasRequest = false
  /// Raised by all that ends: what is in its midst before and after is the same only if this is.
  private(set) var ended = 0

  /// Whether something has begun that must come whole before it is of use. The body of a request is of use in any part.
  var isInMidst: Bool { prefaceLeft > 0 || !header.isEmpty || isInFields || payloadLeft > 0 && kind != Self.data }

  mutating func read(_ bytes: ByteBufferView) {
    var rest = bytes
    skip(&prefaceLeft, &rest)
    while !rest.isEmpty {
      if payloadLeft > 0 {
        skip(&payloadLeft, &rest)
        if payloadLeft == 0 { frameEnded() }
      } else {
        header.append(rest.removeFirst())
        if header.count == 9 { frameBegan() }
      }
    }
  }

  private func skip(_ left: inout Int, _ rest: inout ByteBufferView) {
    let count = min(left, rest.count)
    rest = rest.dropFirst(count)
    left -= count
  }

  private mutating func frameBegan() {
    payloadLeft = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
    kind = header[3]
    let endsFields = header[4] & 0x4 != 0
    header.removeAll(keepingCapacity: true)
    if kind == Self.headers || kind == Self.continuation { isInFields = !endsFields }
    if payloadLeft == 0 { frameEnded() }
  }

  private mutating func frameEnded() {
    if kind == Self.headers || kind == Self.continuation, !isInFields { hasRequest = true }
    if !isInFields { ended += 1 }
  }

  private static let (data, headers, continuation): (UInt8, UInt8, UInt8) = (0, 1, 9)
}
