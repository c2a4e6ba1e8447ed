/// The body of `POST /v1/messages/` and its answer: messages of the first generation, each with a destination of its
/// own (reference 1.8).
package struct LegacyBundle: Sendable, Equatable {
  /// One entry of the list.
  package struct Entry: Sendable, Equatable {
    /// As it was sent: what cannot be a number is nobody's.
    package let destination: String
    /// nil for null and empty: the destination is local.
    package let relay: String?
    package let message: SubmittedMessage
  }

  /// At most `WireLimits.messagesPerBundleMax`.
  package let entries: [Entry]

  /// Times are ignored, whatever they are: some clients send seconds (reference 1.8, Part 4).
  package static func decode(_ json: RawSpan) throws(JSONError) -> LegacyBundle {
    var reader = JSONReader(json)
    var entries: [Entry]?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "messages") else {
        try reader.skip()
        continue
      }
      if try reader.readNull() { continue }
      var list: [Entry] = []
      try reader.beginArray()
      while try reader.nextElement() {
        guard list.count < WireLimits.messagesPerBundleMax else { throw .tooLarge }
        list.append(try decodeEntry(&reader))
      }
      entries = list
    }
    try reader.finish()
    guard let entries else { throw .wrongShape }
    return LegacyBundle(entries: entries)
  }

  /// `{"success": [...], "failure": [...]}`, both always.
  package static func encode(success: [String], failure: [String]) -> [UInt8] {
    var writer = JSONWriter(capacity: 64 + 24 * (success.count + failure.count))
    writer.beginObject()
    writer.key("success")
    writer.beginArray()
    for number in success { writer.string(number) }
    writer.endArray()
    writer.key("failure")
    writer.beginArray()
    for number in failure { writer.string(number) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  @_lifetime(reader: copy reader)
  private static func decodeEntry(_ reader: inout JSONReader) throws(JSONError) -> Entry {
    var message = MessageFields()
    var destination: String?
    var relay: String?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "destination") {
        destination = try reader.string()
      } else if reader.matches(key, "relay") {
        relay = try reader.string()
      } else if reader.matches(key, "timestamp") {
        try reader.skip()
      } else if try !message.read(key, from: &reader) {
        try reader.skip()
      }
    }
    guard let destination, (1...destinationBytesMax).contains(destination.utf8.count), message.body != nil else {
      throw .wrongShape
    }
    return Entry(
      destination: destination, relay: relay?.isEmpty == true ? nil : relay,
      message: try message.submitted(types: MessageBundle.clientTypes))
  }

  /// Far above any number; what is sent comes back in the answer.
  private static let destinationBytesMax = 64
}
