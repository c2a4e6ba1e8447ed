import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Messages and receipts of a peer's accounts for ours, one a request (reference 1.13.2, 1.13.6).
struct PeerMessagesController: Sendable {
  let intake: HandOverIntake

  /// The second segment of the messages' paths is the source's device or, in the older form, the destination.
  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/message", [(.put, putSignal)])
    group.resource("v1/federation/messages/{source}/{sourceDevice}", [(.put, putOfMaster)])
    group.resource("v1/federation/messages/{source}/{sourceDevice}/{destination}", [(.put, put)])
    group.resource("v1/receipt/{source}/{sourceDevice}/{destination}/{timestamp}", [(.put, putReceipt)])
  }

  /// 200 after every message is durable.
  private func put(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    try await accept(request, context) { body throws(Problem) in
      try Self.bundle(body, from: try context.source(), to: try context.number("destination"))
    }
    return .done
  }

  /// The form of relays that name no source device: it is device 1.
  private func putOfMaster(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    try await accept(request, context) { body throws(Problem) in
      let source = DeviceAddress(try context.number("source"), .master)
      return try Self.bundle(body, from: source, to: try context.number("sourceDevice"))
    }
    return .done
  }

  /// The form of the first generation, whose relays know of no devices: 204, 400 or 404.
  private func putSignal(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    do throws(Problem) {
      try await accept(request, context) { body throws(Problem) in
        try body.decodeJSON { json throws(JSONError) in try LegacyHandOver.decode(json) }.handOver
      }
    } catch {
      // A recipient without a device 1 is none.
      throw error.kind == .mismatchedDevices ? Problem(.notFound) : error
    }
    return Response(status: .noContent)
  }

  /// `source`, the peer's account, has received what `destination`, ours, sent at `timestamp`. A body is not read.
  private func putReceipt(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    let bytes = BudgetCharge.bytes(request.bytesDeclared(max: WireLimits.smallRequestBytesMax) ?? 0)
    let receipt: HandOver
    do throws(Problem) {
      receipt = try context.receipt()
    } catch {
      try await intake.budget.charge([.request, bytes], of: peer)
      throw error
    }
    try await intake.accept(
      receipt, marks: request.headers.marks(of: receipt), from: peer,
      charges: [.request, bytes, .recipients(receipt.recipients)])
    return .done
  }

  /// A `relay` in the body is discarded: requests of peers are always local.
  private static func bundle(
    _ body: ByteBuffer, from source: DeviceAddress, to destination: AccountNumber
  ) throws(Problem) -> HandOver {
    let bundle = try body.decodeJSON { json throws(JSONError) in try MessageBundle.decode(json) }
    let submission = bundle.submission(to: destination, coverage: .activeDevices, request: nil)
    return .message(submission, source: source)
  }

  /// Reads a hand-over, charges the request for it in one round trip, and accepts it.
  private func accept(
    _ request: Request, _ context: PeerContext, _ read: (ByteBuffer) throws(Problem) -> HandOver
  ) async throws(Problem) {
    let peer = context.peer.name
    let (handOver, charges) = try await intake.budget.jsonBody(
      of: request, max: WireLimits.messageRequestBytesMax, from: peer, read)
    try await intake.accept(
      handOver, marks: request.headers.marks(of: handOver), from: peer,
      charges: charges + [.recipients(handOver.recipients)])
  }
}

extension PeerContext {
  /// The device that the peer speaks for. - Throws: `.notFound` when the path names none.
  fileprivate func source() throws(Problem) -> DeviceAddress {
    let account = try number("source")
    guard let device = DeviceID(text: try segment("sourceDevice")) else { throw Problem(.notFound) }
    return DeviceAddress(account, device)
  }

  /// The receipt that the path is. - Throws: `.notFound`.
  fileprivate func receipt() throws(Problem) -> HandOver {
    let source = try source()
    let destination = try number("destination")
    guard let millis = Int64(try segment("timestamp")) else { throw Problem(.notFound) }
    return .receipt(Timestamp(millis: millis), source: source, destination: destination)
  }
}
