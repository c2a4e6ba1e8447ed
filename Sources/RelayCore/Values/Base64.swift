/// Base64 as this wire needs it: tolerant in, exact out (reference 2.2).
package enum Base64 {
  /// Decodes the standard and the URL-safe alphabet, padded or not, ignoring ASCII white space.
  ///
  /// An incomplete last quartet of two or three characters yields one or two bytes; leftover bits are ignored.
  /// - Returns: nil for any other character, a lone last character, or data behind the padding.
  package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
    text.withContiguousStorageIfAvailable { decode(characters: $0) }
      ?? Array(text).withUnsafeBufferPointer { decode(characters: $0) }
  }

  private static func decode(characters text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    var bytes = values.withUnsafeBufferPointer { values in
      [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + 3) { bytes, count in
        count = wholeQuartets(of: text, values, into: bytes)
      }
    }
    var bits: UInt32 = 0
    var count = 0
    var padding = 0
    for character in text[(bytes.count / 3 * 4)...] {
      let value = values[Int(character)]
      if value < 64 {
        guard padding == 0 else { return nil }
        bits = bits << 6 | UInt32(value)
        count += 1
        if count == 4 {
          bytes.append(UInt8(truncatingIfNeeded: bits >> 16))
          bytes.append(UInt8(truncatingIfNeeded: bits >> 8))
          bytes.append(UInt8(truncatingIfNeeded: bits))
          (bits, count) = (0, 0)
        }
      } else if value == pad {
        padding += 1
        guard padding <= 2 else { return nil }
      } else if value != space {
        return nil
      }
    }
    guard padding == 0 || count + padding == 4 else { return nil }
    switch count {
    case 0: break
    case 2: bytes.append(UInt8(truncatingIfNeeded: bits >> 4))
    case 3:
      bytes.append(UInt8(truncatingIfNeeded: bits >> 10))
      bytes.append(UInt8(truncatingIfNeeded: bits >> 2))
    default: return nil
    }
    return bytes
  }

  /// Decodes fours of characters up to the first that is none of the alphabet: nearly all of a long text.
  /// - Returns: how many bytes were written.
  private static func wholeQuartets(
    of text: UnsafeBufferPointer<UInt8>, _ values: UnsafeBufferPointer<UInt8>,
    into bytes: UnsafeMutableBufferPointer<UInt8>
  ) -> Int {
    var (place, written) = (0, 0)
    while place + 4 <= text.count {
      let (first, second) = (values[Int(text[place])], values[Int(text[place + 1])])
      let (third, fourth) = (values[Int(text[place + 2])], values[Int(text[place + 3])])
      guard first | second | third | fourth < 64 else { break }
      bytes.initializeElement(at: written, to: first << 2 | second >> 4)
      bytes.initializeElement(at: written + 1, to: second << 4 | third >> 2)
      bytes.initializeElement(at: written + 2, to: third << 6 | fourth)
      place += 4
      written += 3
    }
    return written
  }

  package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

  /// Encodes with the standard alphabet.
  package static func encode(_ bytes: some Collection<UInt8>, padded: Bool) -> String {
    var output: [UInt8] = []
    output.reserveCapacity((bytes.count + 2) / 3 * 4)
    append(bytes, padded: padded, to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  /// Encodes with the URL-safe alphabet, without padding.
  package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> String {
    var output: [UInt8] = []
    append(bytes, padded: false, to: &output)
    for index in output.indices {
      if output[index] == UInt8(ascii: "+") { output[index] = UInt8(ascii: "-") }
      if output[index] == UInt8(ascii: "/") { output[index] = UInt8(ascii: "_") }
    }
    return String(decoding: output, as: UTF8.self)
  }

  /// Appends the encoded text of `bytes` to `output`.
  package static func append(_ bytes: some Collection<UInt8>, padded: Bool, to output: inout [UInt8]) {
    var bits: UInt32 = 0
    var held = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      held += 1
      if held == 3 {
        output.append(alphabet[Int(bits >> 18)])
        output.append(alphabet[Int(bits >> 12 & 63)])
        output.append(alphabet[Int(bits >> 6 & 63)])
        output.append(alphabet[Int(bits & 63)])
        (bits, held) = (0, 0)
      }
    }
    guard held > 0 else { return }
    bits <<= held == 1 ? 4 : 2
    for index in 0...held {
      output.append(alphabet[Int(bits >> UInt32(6 * (held - index)) & 63)])
    }
    if padded { output.append(contentsOf: repeatElement(UInt8(ascii: "="), count: 3 - held)) }
  }

  private static let pad: UInt8 = 64
  private static let space: UInt8 = 65
  static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  /// The value of each byte as a character: 0 to 63; more for a byte that is no character of base64.
  static let values: [UInt8] = {
    var table = [UInt8](repeating: 255, count: 256)
    for (value, character) in alphabet.enumerated() { table[Int(character)] = UInt8(value) }
    table[Int(UInt8(ascii: "-"))] = 62
    table[Int(UInt8(ascii: "_"))] = 63
    table[Int(UInt8(ascii: "="))] = pad
    for character in " \t\r\n".utf8 { table[Int(character)] = space }
    return table
  }()
}
