import RelayCore

/// The answer to `GET /v1/federation/peering`: what the asked relay has the asking one as, and what it is itself
/// (docs/federation-wire.md, "Capabilities"). A relay of before tells name and state only.
struct PeeringStatus: Sendable, Equatable {
  static let path = "/v1/federation/peering"
  /// The protocol between relays, as one number: it changes when relays of before would misunderstand.
  static let protocolVersion = 1

  let name: RelayName
  let state: Peer.State
  /// The capabilities that the relay told and that we know; nil if it told none at all.
  var capabilities: Set<PeerCapability>?
  /// Its clock as it answered; nil for what no clock shows, so that it can be reckoned with.
  var time: Timestamp?
  /// SHA-256 of the keys of the asking relay's CAs, as it has them; at most `authoritiesMax`.
  var authorities: [[UInt8]]?
  var version: Int?
  /// The mark with which the ids of its attachments begin; nil from a relay that does not mark them.
  var attachmentMark: AttachmentMark?

  /// The status that this relay tells to `peer`.
  static func ours(to peer: KnownPeer, at now: Timestamp, attachmentMark: AttachmentMark?) -> PeeringStatus {
    PeeringStatus(
      name: peer.name, state: peer.peer.state, capabilities: Set(PeerCapability.allCases), time: now,
      authorities: peer.fingerprints, version: protocolVersion, attachmentMark: attachmentMark)
  }

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("name")
    writer.string(name.text)
    writer.key("state")
    writer.string(state.rawValue)
    if let capabilities {
      writer.key("capabilities")
      writer.strings(capabilities.map(\.rawValue).sorted())
    }
    if let time {
      writer.key("time")
      writer.integer(time.millis)
    }
    if let authorities {
      writer.key("authorities")
      writer.strings(authorities.map { $0.hex })
    }
    if let version {
      writer.key("version")
      writer.integer(version)
    }
    if let attachmentMark {
      writer.key("attachmentMark")
      writer.integer(Int(attachmentMark.value))
    }
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> PeeringStatus {
    var reader = JSONReader(json)
    var (name, state): (RelayName?, Peer.State?)
    var (capabilities, authorities): ([String]?, [String]?)
    var (time, version, mark): (Int64?, Int64?, Int64?)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "name") {
        name = try reader.string().flatMap { RelayName($0) }
      } else if reader.matches(key, "state") {
        state = try reader.string().flatMap { Peer.State(rawValue: $0) }
      } else if reader.matches(key, "capabilities") {
        capabilities = try reader.strings(max: capabilitiesMax)
      } else if reader.matches(key, "authorities") {
        authorities = try reader.strings(max: authoritiesMax)
      } else if reader.matches(key, "time") {
        time = try reader.integer()
      } else if reader.matches(key, "version") {
        version = try reader.integer()
      } else if reader.matches(key, "attachmentMark") {
        mark = try reader.integer()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let name, let state else { throw .wrongShape }
    return PeeringStatus(
      name: name, state: state, capabilities: capabilities.map { Set($0.compactMap { PeerCapability(rawValue: $0) }) },
      time: time.flatMap { timeRange.contains($0) ? Timestamp(millis: $0) : nil },
      authorities: authorities.map { $0.compactMap { Array(hex: $0) } },
      version: version.flatMap { Int(exactly: $0) }, attachmentMark: mark.flatMap { AttachmentMark($0) })
  }

  /// The most capabilities that a later relay may tell. An answer with more does not come from a relay.
  private static let capabilitiesMax = 100
  private static let authoritiesMax = 8
  /// As far as numbers of JSON are exact everywhere: 285,000 years.
  private static let timeRange: ClosedRange<Int64> = 0...(1 << 53)
}

extension JSONWriter {
  mutating func strings(_ values: [String]) {
    beginArray()
    for value in values { string(value) }
    endArray()
  }
}

extension JSONReader {
  /// - Returns: nil for null. - Throws: `.tooLarge` for more than `max`.
  mutating func strings(max: Int) throws(JSONError) -> [String]? {
    if try readNull() { return nil }
    var values: [String] = []
    try beginArray()
    while try nextElement() {
      guard values.count < max, let value = try string() else { throw .tooLarge }
      values.append(value)
    }
    return values
  }
}

extension [UInt8] {
  /// Two digits a byte, in lower case.
  var hex: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

  /// - Returns: nil for anything but pairs of hexadecimal digits.
  init?(hex text: String) {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    self = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      // A sign is read as a part of a number, and is no digit.
      guard digits[index] != UInt8(ascii: "+"), digits[index] != UInt8(ascii: "-"),
        let byte = UInt8(String(decoding: digits[index..<index + 2], as: UTF8.self), radix: 16)
      else { return nil }
      append(byte)
    }
  }
}
