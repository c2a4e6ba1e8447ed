extension JSONReader {
  /// Reads on from an element that `nextElement` has announced, while elements are contact tokens as most clients
  /// write them. Such a token has 14 characters of base64 of either alphabet, no padding and no escapes. Between two
  /// stands a comma, perhaps with a space. Reading takes one pass, and allocates only what `tokens` needs.
  ///
  /// - Parameter max: how many `tokens` may hold in the end; 1 or more above what it holds.
  /// - Returns: whether there was any. If not, the reader has not moved, and `string` tells what comes next. Else it
  ///   stands behind the last one, and `nextElement` goes on.
  @_lifetime(self: copy self)
  package mutating func plainTokens(into tokens: inout [ContactToken], max: Int) -> Bool {
    skipSpace()
    let bytes = self.bytes
    let quoted = ContactToken.plainTextLength + 2
    var (offset, end) = (position, position)
    Base64.values.withUnsafeBufferPointer { values in
      while tokens.count < max, bytes.byteCount - offset >= quoted,
        bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self) == UInt8(ascii: "\""),
        bytes.unsafeLoad(fromByteOffset: offset + quoted - 1, as: UInt8.self) == UInt8(ascii: "\""),
        let token = ContactToken(plainText: bytes, at: offset + 1, values)
      {
        tokens.append(token)
        end = offset + quoted
        // Behind the last token, and where white space is another, it is the caller's turn again.
        guard bytes.byteCount - end > 2, bytes.unsafeLoad(fromByteOffset: end, as: UInt8.self) == UInt8(ascii: ",")
        else { return }
        offset = bytes.unsafeLoad(fromByteOffset: end + 1, as: UInt8.self) == UInt8(ascii: " ") ? end + 2 : end + 1
      }
    }
    guard end > position else { return false }
    position = end
    needsSeparator = true
    return true
  }
}
