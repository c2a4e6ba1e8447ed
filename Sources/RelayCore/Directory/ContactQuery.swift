/// A question to the directory: `{"contacts": ["token"...]}`. A question about its changes has a `cursor` beside it
/// (reference 1.11; docs/protocol.md, "Directory").
package struct ContactQuery: Sendable, Equatable {
  /// In the order of the request, repeats included.
  package let tokens: [ContactToken]
  /// As it stands in the request, any text; nil where there is none, and where it was not asked for.
  package let cursor: String?

  package enum Refusal: Error, Sendable, Equatable {
    case json(JSONError)
    /// A token is not the base64 of 10 bytes: 400 for the whole request.
    case undecodable
    /// More tokens than may be asked for at once. The rest of the body was not read.
    case tooMany
  }

  /// - Parameters:
  ///   - tokensMax: 1 or more.
  ///   - hasCursor: whether a `cursor` is read; else it is a property like any other that is not known.
  package static func decode(_ json: RawSpan, tokensMax: Int, hasCursor: Bool = false) throws(Refusal) -> ContactQuery {
    var parts = Parts(tokensMax: tokensMax, hasCursor: hasCursor)
    do throws(JSONError) {
      try parts.read(json)
    } catch {
      throw parts.isTooLong ? .tooMany : .json(error)
    }
    guard let tokens = parts.tokens else { throw .json(.wrongShape) }
    if parts.isUndecodable { throw .undecodable }
    return ContactQuery(tokens: tokens, cursor: parts.cursor)
  }

  /// A query as far as it was read.
  private struct Parts {
    let tokensMax: Int
    let hasCursor: Bool
    var tokens: [ContactToken]?
    var cursor: String?
    var isUndecodable = false
    var isTooLong = false

    mutating func read(_ json: RawSpan) throws(JSONError) {
      var reader = JSONReader(json)
      // A token of a list takes 17 bytes at least: one allocation for all of them.
      let room = min(tokensMax, json.byteCount / (ContactToken.plainTextLength + 3) + 1)
      try reader.beginObject()
      while let key = try reader.nextKey() {
        if reader.matches(key, "contacts") {
          try readList(&reader, room: room)
        } else if hasCursor, reader.matches(key, "cursor") {
          cursor = try reader.string()
        } else {
          try reader.skip()
        }
      }
      try reader.finish()
    }

    @_lifetime(reader: copy reader)
    private mutating func readList(_ reader: inout JSONReader, room: Int) throws(JSONError) {
      var list: [ContactToken] = []
      list.reserveCapacity(room)
      try reader.beginArray()
      while try reader.nextElement() {
        guard list.count < tokensMax else {
          isTooLong = true
          throw .tooLarge
        }
        if reader.plainTokens(into: &list, max: tokensMax) { continue }
        guard let text = try reader.stringWithAnyCharacter() else { throw .wrongShape }
        if let token = ContactCodec.token(text) { list.append(token) } else { isUndecodable = true }
      }
      tokens = list
    }
  }
}
