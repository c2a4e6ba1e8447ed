/// The answer of `GET /v1/messages/` (reference 1.9).
package enum MailboxCodec {
  /// Base64 is padded; a notice's `message` is an empty string, for old clients.
  package static func encode(_ queued: [QueuedEnvelope], more: Bool) -> [UInt8] {
    var writer = JSONWriter(capacity: 64 + queued.reduce(0) { $0 + 256 + $1.envelope.byteCount / 3 * 4 })
    writer.beginObject()
    writer.key("messages")
    writer.beginArray()
    for item in queued { encode(item.envelope, into: &writer) }
    writer.endArray()
    writer.key("more")
    writer.boolean(more)
    writer.endObject()
    return writer.bytes
  }

  private static func encode(_ envelope: Envelope, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("type")
    writer.integer(envelope.type.rawValue)
    writer.key("relay")
    writer.string(envelope.relay?.text ?? "")
    writer.key("timestamp")
    writer.integer(envelope.timestamp.millis)
    writer.key("source")
    writer.string(envelope.source.account.e164)
    writer.key("sourceDevice")
    writer.integer(envelope.source.device.value)
    writer.key("message")
    if envelope.type.isNotice { writer.string("") } else { writer.base64(envelope.message, padded: true) }
    writer.key("content")
    writer.base64(envelope.content, padded: true)
    writer.endObject()
  }
}
