import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

// Bodies of peers' requests: none is read for nothing, whether it says how long it is or not, and whether it can be
// understood or not.
extension PeerBudget {
  /// Reads a body, for which, and for the request, `peer` is charged: before, as far as its length is declared.
  /// - Throws: `.budgetExceeded`; as `Request.body`.
  func body(
    of request: Request, as mediaType: String = "application/json", max: Int, from peer: RelayName
  ) async throws(Problem) -> ByteBuffer {
    let declared = request.bytesDeclared(max: max)
    try demandRoom(for: declared, of: peer)
    try await charge([.request, .bytes(declared ?? 0)], of: peer)
    var received = 0
    let body: ByteBuffer
    do throws(Problem) {
      body = try await request.body(as: mediaType, max: max, counting: &received)
    } catch {
      try await charge([.bytes(received - (declared ?? 0))], of: peer)
      throw error
    }
    try await charge([.bytes(received - (declared ?? 0))], of: peer)
    return body
  }

  /// Reads a JSON body and what it asks for, whose charges are not made: they are for the caller to make with its own,
  /// so that a request costs one call to the limiter.
  ///
  /// A body is read before it is charged then. That costs no more than the memory of `max` bytes: once a peer had no
  /// room for a request or a body, no more of its bodies are read until there is.
  /// - Returns: what `read` made of the body, and the charges for the request and the body.
  /// - Throws: `.budgetExceeded` before anything is read; what `Request.body` and `read` throw, and that is charged.
  func jsonBody<Asked>(
    of request: Request, max: Int, from peer: RelayName, _ read: (ByteBuffer) throws(Problem) -> Asked
  ) async throws(Problem) -> (asked: Asked, charges: [BudgetCharge]) {
    let declared = request.bytesDeclared(max: max)
    try demandRoom(for: declared, of: peer)
    var received = 0
    do throws(Problem) {
      let asked = try read(try await request.body(as: "application/json", max: max, counting: &received))
      return (asked, [.request, .bytes(Swift.max(declared ?? 0, received))])
    } catch {
      try await charge([.request, .bytes(Swift.max(declared ?? 0, received))], of: peer)
      throw error
    }
  }
}

extension Request {
  /// The bytes to charge for a body of at most `max` bytes by its declared length; nil if it declares none.
  func bytesDeclared(max: Int) -> Int? { declaredLength.map { Swift.min(Swift.max($0, 0), max) } }
}
