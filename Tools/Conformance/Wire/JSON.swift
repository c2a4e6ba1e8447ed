import Foundation

/// A JSON value as it is sent and as answers are compared with: rules look at exactly what stands on the wire.
package enum JSON: Sendable, Equatable {
  case null
  case boolean(Bool)
  case integer(Int64)
  case decimal(Double)
  case string(String)
  case array([JSON])
  case object([String: JSON])

  /// The value of `key`; nil when this is no object or lacks it. An explicit `null` is `.null`.
  package subscript(_ key: String) -> JSON? {
    if case .object(let properties) = self { properties[key] } else { nil }
  }

  package var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }
  package var string: String? { if case .string(let text) = self { text } else { nil } }
  package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
  package var keys: Set<String> { if case .object(let properties) = self { Set(properties.keys) } else { [] } }

  /// This object with `others` in place of its own properties of those names.
  package func with(_ others: [String: JSON]) -> JSON {
    guard case .object(let properties) = self else { return self }
    return .object(properties.merging(others) { $1 })
  }

  /// This object without `key`.
  package func without(_ key: String) -> JSON {
    guard case .object(var properties) = self else { return self }
    properties[key] = nil
    return .object(properties)
  }
}

extension JSON: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  package init(nilLiteral: ()) { self = .null }
  package init(booleanLiteral value: Bool) { self = .boolean(value) }
  package init(integerLiteral value: Int64) { self = .integer(value) }
  package init(stringLiteral value: String) { self = .string(value) }
  package init(arrayLiteral elements: JSON...) { self = .array(elements) }
  /// If two keys are equal the later one stands.
  package init(dictionaryLiteral elements: (String, JSON)...) { self = .object(Dictionary(elements) { $1 }) }

  package init(_ value: Int) { self = .integer(Int64(value)) }
}

extension JSON: Codable {
  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {  // Each failure only says that it is another kind.
      self = .boolean(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .decimal(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSON].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode([String: JSON].self))
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .boolean(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .decimal(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }

  /// As it is sent. - Throws: only for a decimal that JSON cannot hold.
  package func bytes(isPretty: Bool = false) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = isPretty ? [.prettyPrinted, .sortedKeys] : [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(self))
  }

  /// - Returns: nil for what is no JSON.
  package init?(bytes: [UInt8]) {
    guard let value = try? JSONDecoder().decode(JSON.self, from: Data(bytes)) else { return nil }  // The caller tells.
    self = value
  }
}
