@testable import PushGateway
@testable import RelayCore

/// The reader of known shapes and the parser of unknown ones, held against each other.
func fuzzJSON(_ bytes: [UInt8]) {
  let skipped = isSkipped(bytes)
  walk(bytes)
  guard let value = try? JSONValue(parsing: bytes) else { return }
  demand(skipped || brackets(in: bytes) >= WireLimits.jsonDepthMax, "what the parser takes, the reader steps over")
  for form in [JSONForm.compact, .spaced] {
    demand((try? JSONValue(parsing: value.bytes(form))) == value, "what is written reads as what was read")
  }
  if case .text(let text) = value { writesBack(text) }
  if case .number(let digits) = value, let number = Int64(digits) {
    var reader = JSONReader(bytes.span.bytes)
    demand((try? reader.integer()) == number, "both read the same integer")
  }
}

/// The wire's writer is read back by the wire's reader.
func writesBack(_ text: String) {
  var writer = JSONWriter()
  writer.string(text)
  var reader = JSONReader(writer.bytes.span.bytes)
  demand((try? reader.string()) == (text.utf8.contains(0) ? nil : text), "a text that was written reads as it was")
}

private func isSkipped(_ bytes: [UInt8]) -> Bool {
  var reader = JSONReader(bytes.span.bytes)
  do throws(JSONError) {
    try reader.skip()
    try reader.finish()
    return true
  } catch {
    return false
  }
}

/// How deep it may be nested.
private func brackets(in bytes: [UInt8]) -> Int {
  bytes.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }
}

/// Reads an object of anything, each value by a reader that its key names, as the bodies do.
private func walk(_ bytes: [UInt8]) {
  var reader = JSONReader(bytes.span.bytes)
  do throws(JSONError) {
    try reader.beginObject()
    while let key = try reader.nextKey() { try read(key, &reader) }
    try reader.finish()
  } catch {
    // Refused, as it should be.
  }
}

private func read(_ key: JSONKey, _ reader: inout JSONReader) throws(JSONError) {
  if reader.matches(key, "s") {
    if let text = try reader.string() { writesBack(text) }
  } else if reader.matches(key, "b") {
    if let bytes = try reader.base64() { demand(!bytes.isEmpty, "empty base64 is none") }
  } else if reader.matches(key, "i") {
    _ = try reader.integer()
  } else if reader.matches(key, "t") {
    _ = try reader.boolean()
  } else if reader.matches(key, "l") {
    try reader.beginArray()
    while try reader.nextElement() {
      var tokens: [ContactToken] = []
      if !reader.plainTokens(into: &tokens, max: 3) { try reader.skip() }
      demand(tokens.count <= 3, "no more tokens than were asked for")
    }
  } else {
    try reader.skip()
  }
}
