/// The JSON bodies of 409 and 410 (reference 1.8), every array, also when empty, and of 411 (reference 1.14).
extension Problem.Devices {
  package var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    switch self {
    case .mismatched(let missing, let extra):
      writer.key("missingDevices")
      Self.write(missing, to: &writer)
      writer.key("extraDevices")
      Self.write(extra, to: &writer)
    case .stale(let stale):
      writer.key("staleDevices")
      Self.write(stale, to: &writer)
    case .full(let current, let max):
      writer.key("current")
      writer.integer(current)
      writer.key("max")
      writer.integer(max)
    }
    writer.endObject()
    return writer.bytes
  }

  /// Reads a peer's 409 or 410 body.
  package static func decode(_ json: RawSpan, isStale: Bool) throws(JSONError) -> Problem.Devices {
    var reader = JSONReader(json)
    var missing: [DeviceID] = []
    var extra: [DeviceID] = []
    var stale: [DeviceID] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "missingDevices") {
        missing = try read(&reader)
      } else if reader.matches(key, "extraDevices") {
        extra = try read(&reader)
      } else if reader.matches(key, "staleDevices") {
        stale = try read(&reader)
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return isStale ? .stale(stale) : .mismatched(missing: missing, extra: extra)
  }

  private static func write(_ devices: [DeviceID], to writer: inout JSONWriter) {
    writer.beginArray()
    for device in devices { writer.integer(device.value) }
    writer.endArray()
  }

  @_lifetime(reader: copy reader)
  private static func read(_ reader: inout JSONReader) throws(JSONError) -> [DeviceID] {
    var devices: [DeviceID] = []
    try reader.beginArray()
    while try reader.nextElement() {
      guard devices.count < WireLimits.messagesPerBundleMax, let value = try reader.integer(),
        let device = DeviceID(value)
      else { throw .wrongShape }
      devices.append(device)
    }
    return devices
  }
}

extension Problem {
  /// The refusal of a body that cannot be read (reference 1.1: 415; too large: 413).
  package init(_ error: JSONError) {
    switch error {
    case .malformed, .wrongShape: self.init(.malformedBody)
    case .tooLarge: self.init(.bodyTooLarge)
    }
  }
}
