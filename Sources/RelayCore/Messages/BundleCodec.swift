/// The bundle of `PUT /v1/messages/{destination}` and of its forwarding to a peer (reference 1.8).
package struct MessageBundle: Sendable, Equatable {
  package var messages: [SubmittedMessage]
  /// nil for null and empty: the destination is local.
  package var relay: String?
  /// Top-level time, else the first non-zero of the messages, else nil (reference 2.7).
  package var timestamp: Timestamp?

  /// - Parameter types: which message types may be submitted; others are `.wrongShape`.
  package static func decode(_ json: RawSpan, types: Set<MessageType> = clientTypes) throws(JSONError) -> MessageBundle
  {
    var reader = JSONReader(json)
    var messages: [SubmittedMessage]?
    var relay: String?
    var topLevel: Int64 = 0
    var perMessage: Int64 = 0
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "messages") {
        if try reader.readNull() { continue }
        var list: [SubmittedMessage] = []
        try reader.beginArray()
        while try reader.nextElement() {
          guard list.count < WireLimits.messagesPerBundleMax else { throw .tooLarge }
          let (message, timestamp) = try decodeMessage(&reader, types: types)
          list.append(message)
          if perMessage == 0 { perMessage = timestamp }
        }
        messages = list
      } else if reader.matches(key, "relay") {
        relay = try reader.string()
      } else if reader.matches(key, "timestamp") {
        topLevel = try reader.integer() ?? 0
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let messages else { throw .wrongShape }
    let millis = topLevel != 0 ? topLevel : perMessage
    return MessageBundle(
      messages: messages, relay: relay?.isEmpty == true ? nil : relay,
      timestamp: millis == 0 ? nil : Timestamp(millis: millis))
  }

  /// - Parameter request: as `Submission.request`.
  package func submission(
    to destination: AccountNumber, coverage: Submission.Coverage, request: RequestID?
  ) -> Submission {
    Submission(
      destination: destination, messages: messages, timestamp: timestamp, coverage: coverage, request: request)
  }

  /// The types that clients may send; only servers make receipts (reference 2.8).
  package static let clientTypes: Set<MessageType> = [.unknown, .ciphertext, .keyExchange, .preKeyBundle, .plaintext]

  @_lifetime(reader: copy reader)
  private static func decodeMessage(_ reader: inout JSONReader, types: Set<MessageType>) throws(JSONError)
    -> (SubmittedMessage, timestamp: Int64)
  {
    var fields = MessageFields()
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if try !fields.read(key, from: &reader) { try reader.skip() }
    }
    return (try fields.submitted(types: types), fields.timestamp)
  }

  /// The form a peer receives: base64 padded, no `relay` (reference 1.13.2, 2.2).
  package static func encode(_ submission: Submission) -> [UInt8] {
    var writer = JSONWriter(capacity: 512 + submission.messages.reduce(0) { $0 + 2 * ($1.body?.count ?? 0) })
    writer.beginObject()
    if let timestamp = submission.timestamp {
      writer.key("timestamp")
      writer.integer(timestamp.millis)
    }
    writer.key("messages")
    writer.beginArray()
    for message in submission.messages {
      writer.beginObject()
      writer.key("type")
      writer.integer(message.type.rawValue)
      writer.key("destinationDeviceId")
      writer.integer(message.device.value)
      writer.key("destinationRegistrationId")
      writer.integer(message.registrationID)
      writer.key("body")
      writer.base64(message.body, padded: true)
      writer.key("content")
      writer.base64(message.content, padded: true)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

/// The properties of one message, as every form of a bundle has them.
struct MessageFields {
  private var type: Int64 = 0
  private var device: Int64 = 1
  private var registrationID: Int64 = 0
  private(set) var timestamp: Int64 = 0
  private(set) var body: [UInt8]?
  private var content: [UInt8]?

  /// Reads the value of `key`. - Returns: false when it is none of these, and nothing was read.
  @_lifetime(reader: copy reader)
  mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) -> Bool {
    if reader.matches(key, "type") {
      type = try reader.integer() ?? 0
    } else if reader.matches(key, "destinationDeviceId") {
      device = try reader.integer() ?? 1
    } else if reader.matches(key, "destinationRegistrationId") {
      registrationID = try reader.integer() ?? 0
    } else if reader.matches(key, "body") {
      body = try reader.base64()
    } else if reader.matches(key, "content") {
      content = try reader.base64()
    } else if reader.matches(key, "timestamp") {
      timestamp = try reader.integer() ?? 0
    } else {
      return false
    }
    return true
  }

  /// - Throws: `.wrongShape` for a type that is not among `types` and for what is no device, `.tooLarge` for more than
  ///   `WireLimits.messageBytesMax`.
  func submitted(types: Set<MessageType>) throws(JSONError) -> SubmittedMessage {
    guard let raw = Int16(exactly: type), let kind = MessageType(rawValue: raw), types.contains(kind),
      let id = DeviceID(device)
    else { throw .wrongShape }
    guard (body?.count ?? 0) + (content?.count ?? 0) <= WireLimits.messageBytesMax else { throw .tooLarge }
    return SubmittedMessage(type: kind, device: id, registrationID: registrationID, body: body, content: content)
  }
}
