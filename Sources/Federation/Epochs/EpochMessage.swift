import RelayCore

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
    var reader = JSONReader(json)
    var epoch: Int64?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "epoch") { epoch = try reader.integer() } else { try reader.skip() }
    }
    try reader.finish()
    guard let epoch, epoch >= 0 else { throw .wrongShape }
    return EpochMessage(epoch: epoch)
  }
}
