import Hummingbird
import RelayCore
import RelayHTTP

/// Remembers peers' epochs for them, so that a peer whose store was restored learns how far it had come
/// (docs/federation.md, "Epochs").
struct EpochController: Sendable {
  let memory: EpochMemory
  let budget: PeerBudget

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/epoch", [(.put, witness)])
  }

  /// Answers the highest epoch that the peer named before. A lower one than that changes nothing.
  private func witness(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer
    let body = try await budget.body(of: request, max: WireLimits.smallRequestBytesMax, from: peer.name)
    let told = try body.decodeJSON { json throws(JSONError) in try EpochMessage.decode(json) }
    let before = try await storing { () throws(StoreError) in try await memory.remember(told.epoch, of: peer) }
    // Removed since the gate let it in.
    guard let before else { throw Problem(.peerRefused) }
    return .json(EpochMessage(epoch: before).json)
  }
}

/// `{"epoch": n}`, the body of `PUT /v1/federation/epoch` and of its answer, an addition of ours to reference 1.13.2
/// (docs/federation.md, "Epochs").
struct EpochMessage: Sendable, Equatable {
  /// 0 or more; 0 is before the first.
  let epoch: Int64

  var json: [UInt8] {
    var writer = JSONWriter(capacity: 32)
    writer.beginObject()
    writer.key("epoch")
    writer.integer(epoch)
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> EpochMessage {
    let epoch = try JSONReader.property("epoch", of: json) { reader throws(JSONError) in try reader.integer() }
    guard let epoch, epoch >= 0 else { throw .wrongShape }
    return EpochMessage(epoch: epoch)
  }
}
