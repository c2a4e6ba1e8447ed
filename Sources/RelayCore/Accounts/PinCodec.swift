/// The registration lock on the wire: our own addition, which old clients do not notice (reference Part 6, 4).
package enum PinCodec {
  /// Reads the body of `PUT /v1/accounts/pin/`: `{"pin": "..."}`.
  package static func decode(_ json: RawSpan) throws(JSONError) -> Secret {
    var reader = JSONReader(json)
    var pin: String?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "pin") { pin = try reader.string() } else { try reader.skip() }
    }
    try reader.finish()
    guard let pin, isPin(pin) else { throw .wrongShape }
    return Secret(pin)
  }

  /// Whether `text` has 4 to 100 characters, of any kind.
  package static func isPin(_ text: String) -> Bool {
    text.utf8.count <= bytesMax && (4...charactersMax).contains(text.count)
  }

  private static let charactersMax = 100
  /// A character can be a letter with marks without end.
  private static let bytesMax = 1024
}
