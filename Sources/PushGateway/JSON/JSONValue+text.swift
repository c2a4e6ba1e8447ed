import OrderedCollections
import RelayCore

/// The two forms in which JSON leaves the gateway, both with everything beyond ASCII as it is.
package enum JSONForm: Sendable {
  /// No white space.
  case compact
  /// One space behind each `,` and `:`, the form in which the reference measures APNs' payloads (reference 4.6).
  case spaced
}

extension JSONValue {
  package func bytes(_ form: JSONForm) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(512)
    append(to: &output, form)
    return output
  }

  private func append(to output: inout [UInt8], _ form: JSONForm) {
    switch self {
    case .null: output.append(contentsOf: "null".utf8)
    case .boolean(let value): output.append(contentsOf: (value ? "true" : "false").utf8)
    case .number(let digits): output.append(contentsOf: digits.utf8)
    case .text(let text): Self.append(text, to: &output)
    case .list(let list):
      output.append(UInt8(ascii: "["))
      for (index, value) in list.enumerated() {
        if index > 0 { Self.separate(UInt8(ascii: ","), &output, form) }
        value.append(to: &output, form)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let object):
      output.append(UInt8(ascii: "{"))
      var isFirst = true
      for (key, value) in object {
        if !isFirst { Self.separate(UInt8(ascii: ","), &output, form) }
        isFirst = false
        Self.append(key.text, to: &output)
        Self.separate(UInt8(ascii: ":"), &output, form)
        value.append(to: &output, form)
      }
      output.append(UInt8(ascii: "}"))
    }
  }

  private static func separate(_ mark: UInt8, _ output: inout [UInt8], _ form: JSONForm) {
    output.append(mark)
    if form == .spaced { output.append(UInt8(ascii: " ")) }
  }

  private static func append(_ text: String, to output: inout [UInt8]) {
    output.append(UInt8(ascii: "\""))
    let isDone: Void? = text.utf8.withContiguousStorageIfAvailable { append($0, to: &output) }
    if isDone == nil { Array(text.utf8).withUnsafeBufferPointer { append($0, to: &output) } }
    output.append(UInt8(ascii: "\""))
  }

  /// Bytes that need no escape go in one piece.
  private static func append(_ text: UnsafeBufferPointer<UInt8>, to output: inout [UInt8]) {
    var start = 0
    for (place, byte) in text.enumerated() {
      let escape = JSONEscape(byte)
      if case .none = escape { continue }
      output.append(contentsOf: text[start..<place])
      start = place + 1
      switch escape {
      case .none: break
      case .short(let letter):
        output.append(UInt8(ascii: "\\"))
        output.append(letter)
      case .hexadecimal:
        output.append(contentsOf: "\\u00".utf8)
        output.append(byte < 0x10 ? 0x30 : 0x31)
        output.append(hexadecimalDigit(byte & 15))
      }
    }
    output.append(contentsOf: text[start...])
  }
}

/// How one byte of UTF-8 stands inside a JSON string.
enum JSONEscape {
  case none
  /// A backslash and this.
  case short(UInt8)
  /// `\u00XX`.
  case hexadecimal

  init(_ byte: UInt8) {
    self =
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): .short(byte)
      case 0x08: .short(UInt8(ascii: "b"))
      case 0x09: .short(UInt8(ascii: "t"))
      case 0x0A: .short(UInt8(ascii: "n"))
      case 0x0C: .short(UInt8(ascii: "f"))
      case 0x0D: .short(UInt8(ascii: "r"))
      case 0..<0x20: .hexadecimal
      default: .none
      }
  }

  /// Bytes that take the place of the one.
  var length: Int {
    switch self {
    case .none: 1
    case .short: 2
    case .hexadecimal: 6
    }
  }
}

/// `0` to `f`. - Parameter value: 0 to 15.
func hexadecimalDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x61 + value - 10 }
