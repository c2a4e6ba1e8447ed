// A command whose values stand where they are used.

/// The text of an SQL command, and its values: `"… WHERE account = \(account) AND device = \(device)"`.
///
/// A value becomes the next `$n`, with the name of its type behind it: `$1::bigint`. The text is made of the program's
/// own literals alone, so it is the same in every call, and a connection prepares it once. Values are bound, never
/// pasted.
struct PostgresQuery: ExpressibleByStringInterpolation, Sendable {
  let text: Text
  let parameters: PostgresParameters

  /// Made into a string when a connection prepares it, and not before.
  enum Text: Sendable {
    case whole(StaticString)
    case pieces([Piece])
  }

  enum Piece: Sendable {
    case literal(StaticString)
    /// - Parameters:
    ///   - place: from 1.
    ///   - type: as PostgreSQL names it.
    case value(place: Int, type: StaticString)
  }

  init(stringLiteral text: StaticString) {
    self.text = .whole(text)
    parameters = .none
  }

  init(stringInterpolation: Interpolation) {
    text = .pieces(stringInterpolation.pieces)
    parameters = stringInterpolation.parameters
  }
}

/// A value that one statement mentions several times, or several statements share: each binds it once.
final class PostgresParameter: Sendable {
  fileprivate let type: StaticString
  /// nil for NULL.
  fileprivate let bytes: [UInt8]?

  init<Value: PostgresValue>(_ value: Value) {
    var bytes: [UInt8] = []
    let isValue = value.append(to: &bytes)
    type = Value.postgresType.name
    self.bytes = isValue ? bytes : nil
  }

  /// An array.
  init<Values: Collection>(each values: Values) where Values.Element: PostgresValue {
    var bytes: [UInt8] = []
    values.appendArray(to: &bytes)
    type = Values.Element.postgresType.arrayName
    self.bytes = bytes
  }

  /// A client's text.
  convenience init(opaque text: String?) { self.init(text.map(PostgresOpaque.init)) }
}

extension PostgresQuery {
  struct Interpolation: StringInterpolationProtocol {
    fileprivate var pieces: [Piece] = []
    fileprivate var parameters = PostgresParameters.none
    /// In the order of their first mention, with their places. They are kept, so that no other takes their identity.
    private var repeated: [(parameter: PostgresParameter, place: Int)] = []

    init(literalCapacity: Int, interpolationCount: Int) { pieces.reserveCapacity(2 * interpolationCount + 1) }

    mutating func appendLiteral(_ literal: StaticString) { pieces.append(.literal(literal)) }

    /// Part of the text.
    mutating func appendInterpolation(fragment: StaticString) { appendLiteral(fragment) }

    /// Part of the text, with its values.
    mutating func appendInterpolation(_ part: PostgresQuery) {
      let former = parameters.fields.count
      parameters.append(part.parameters)
      switch part.text {
      case .whole(let text): appendLiteral(text)
      case .pieces(let others):
        for piece in others {
          switch piece {
          case .literal: pieces.append(piece)
          case .value(let place, let type): pieces.append(.value(place: former + place, type: type))
          }
        }
      }
    }

    /// How many bytes the values of a large statement take: the buffer is made once. Adds nothing to the text.
    mutating func appendInterpolation(reserving count: Int) { parameters.reserve(count) }

    /// nil is NULL. The parameter is optional, or the compiler warns of each optional value.
    mutating func appendInterpolation<Value: PostgresValue>(_ value: Value?) {
      parameters.append { value.append(to: &$0) }
      mention(type: Value.postgresType.name)
    }

    /// A client's text (`PostgresOpaque`).
    mutating func appendInterpolation(opaque text: String?) { appendInterpolation(text.map(PostgresOpaque.init)) }

    /// An array, for `= ANY (…)` and `unnest(…)`.
    mutating func appendInterpolation<Values: Collection>(each values: Values) where Values.Element: PostgresValue {
      parameters.append {
        values.appendArray(to: &$0)
        return true
      }
      mention(type: Values.Element.postgresType.arrayName)
    }

    mutating func appendInterpolation(_ parameter: PostgresParameter) {
      if let known = repeated.first(where: { $0.parameter === parameter }) {
        pieces.append(.value(place: known.place, type: parameter.type))
        return
      }
      parameters.append { bytes in
        guard let value = parameter.bytes else { return false }
        bytes.append(contentsOf: value)
        return true
      }
      repeated.append((parameter, parameters.fields.count))
      mention(type: parameter.type)
    }

    private mutating func mention(type: StaticString) {
      pieces.append(.value(place: parameters.fields.count, type: type))
    }
  }
}

extension PostgresQuery.Text {
  /// As PostgreSQL reads it.
  var sql: String {
    switch self {
    case .whole(let text): text.description
    case .pieces(let pieces):
      pieces.reduce(into: "") { sql, piece in
        switch piece {
        case .literal(let text): sql += text.description
        case .value(let place, let type): sql += "$\(place)::\(type)"
        }
      }
    }
  }
}
