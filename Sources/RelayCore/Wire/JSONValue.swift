package import OrderedCollections

/// Any JSON, as it came: the order of keys and the digits of numbers are kept.
///
/// The push gateway passes such values through without understanding them: a pusher's default payload, an event's
/// content, an app's options. `JSONReader` reads JSON whose shape is known beforehand.
package enum JSONValue: Sendable, Equatable {
  case null
  case boolean(Bool)
  /// As it stood in the text; always by JSON's grammar.
  case number(String)
  case text(String)
  case list([JSONValue])
  case object(JSONObject)

  package var text: String? { if case .text(let text) = self { text } else { nil } }
  package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
  package var list: [JSONValue]? { if case .list(let list) = self { list } else { nil } }
  package var boolean: Bool? { if case .boolean(let boolean) = self { boolean } else { nil } }
  /// nil also for a number with a fraction, an exponent, or more than 64 bits.
  package var integer: Int64? { if case .number(let digits) = self { Int64(digits) } else { nil } }

  package static func integer(_ value: Int64) -> JSONValue { .number(String(value)) }
}

/// Setting a key that is there keeps its place; a later one of two equal keys wins.
package typealias JSONObject = OrderedDictionary<JSONName, JSONValue>

/// A key of an object. Two are equal when their bytes are: as texts, Swift takes different spellings of one character
/// for equal, and of two such keys one would be lost.
package struct JSONName: Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let text: String

  package init(_ text: String) { self.text = text }
  package init(stringLiteral text: String) { self.text = text }

  package var description: String { text }

  package static func == (a: JSONName, b: JSONName) -> Bool { a.text.utf8.elementsEqual(b.text.utf8) }
  package func hash(into hasher: inout Hasher) {
    let isDone: Void? = text.utf8.withContiguousStorageIfAvailable {
      hasher.combine(bytes: UnsafeRawBufferPointer($0))
    }
    if isDone == nil { Array(text.utf8).withUnsafeBytes { hasher.combine(bytes: $0) } }
  }
}
