/// The requests and answers of an oblivious look-up (docs/protocol.md, "Oblivious look-up").
package enum ObliviousCodec {
  /// An element of ristretto255: a blinded one, its evaluation, or a public key (RFC 9496, section 4.3).
  package static let elementBytes = 32
  /// The two numbers of a proof.
  package static let proofBytes = 64
  /// The elements that one request may hold.
  package static let elementsMax = 1000
  /// Outputs of one page.
  package static let outputsPerPage = 10_000

  package enum Refusal: Error, Sendable, Equatable {
    case json(JSONError)
    /// An element is not the base64 of 32 bytes, or they are all 0.
    case undecodable
    /// The rest of the body was not read.
    case tooMany
  }

  /// `{"elements": ["base64"...]}`
  /// - Returns: elements of 32 bytes that are not the identity, in the order of the request. The computation with them
  ///   finds out whether they are elements of the group.
  package static func elements(_ json: RawSpan) throws(Refusal) -> [[UInt8]] {
    var list = ElementList()
    do throws(JSONError) {
      try list.read(json)
    } catch {
      throw list.isTooLong ? .tooMany : .json(error)
    }
    guard let elements = list.elements else { throw .json(.wrongShape) }
    if list.isUndecodable { throw .undecodable }
    return elements
  }

  /// A request as far as it was read.
  private struct ElementList {
    var elements: [[UInt8]]?
    var isUndecodable = false
    var isTooLong = false

    mutating func read(_ json: RawSpan) throws(JSONError) {
      var reader = JSONReader(json)
      try reader.beginObject()
      while let key = try reader.nextKey() {
        if reader.matches(key, "elements") { try readList(&reader) } else { try reader.skip() }
      }
      try reader.finish()
    }

    @_lifetime(reader: copy reader)
    private mutating func readList(_ reader: inout JSONReader) throws(JSONError) {
      var list: [[UInt8]] = []
      try reader.beginArray()
      while try reader.nextElement() {
        guard list.count < elementsMax else {
          isTooLong = true
          throw .tooLarge
        }
        guard let text = try reader.string() else { throw .wrongShape }
        if let bytes = Base64.decode(text), canBeElement(bytes) { list.append(bytes) } else { isUndecodable = true }
      }
      elements = list
    }
  }

  /// The identity is all zeros, and no element (RFC 9497, section 2.1).
  package static func canBeElement(_ bytes: [UInt8]) -> Bool {
    bytes.count == elementBytes && bytes.contains { $0 != 0 }
  }

  /// `{"elements": ["base64"...]}`
  package static func request(_ elements: [[UInt8]]) -> [UInt8] {
    var writer = JSONWriter(capacity: 32 + 47 * elements.count)
    writer.beginObject()
    writer.key("elements")
    writeList(elements, to: &writer)
    writer.endObject()
    return writer.bytes
  }

  /// `{"key": "base64", "evaluations": ["base64"...], "proof": "base64"}`
  /// - Parameter proof: of all evaluations; nil where there are none.
  package static func answer(key: [UInt8], evaluations: [[UInt8]], proof: [UInt8]?) -> [UInt8] {
    var writer = JSONWriter(capacity: 224 + 47 * evaluations.count)
    writer.beginObject()
    writer.key("key")
    writer.base64(key, padded: true)
    writer.key("evaluations")
    writeList(evaluations, to: &writer)
    if let proof {
      writer.key("proof")
      writer.base64(proof, padded: true)
    }
    writer.endObject()
    return writer.bytes
  }

  /// `{"key": "base64", "prefix-suggested": 3, "outputs": "base64", "homes": "base64", "relays": ["name"...], "next":
  /// "..."}`, `next` only where there is more.
  /// - Parameters:
  ///   - outputs: ascending.
  ///   - next: the last output that was looked at, where there may be more behind it.
  package static func page(
    key: [UInt8], suggestedDigits: Int, outputs: [RegisteredOutput], next: ObliviousOutput?
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(ObliviousOutput.byteCount * outputs.count)
    for output in outputs { bytes.append(contentsOf: output.output.bytes) }
    let homes = ObliviousHomes(of: outputs)
    var writer = JSONWriter(capacity: 256 + (bytes.count + homes.bytes.count) / 3 * 4)
    writer.beginObject()
    writer.key("key")
    writer.base64(key, padded: true)
    writer.key("prefix-suggested")
    writer.integer(suggestedDigits)
    writer.key("outputs")
    writer.base64(bytes, padded: true)
    writer.key("homes")
    writer.base64(homes.bytes, padded: true)
    writer.key("relays")
    writer.beginArray()
    for relay in homes.relays { writer.string(relay.text) }
    writer.endArray()
    if let next {
      writer.key("next")
      writer.string(next.cursorText)
    }
    writer.endObject()
    return writer.bytes
  }

  private static func writeList(_ list: [[UInt8]], to writer: inout JSONWriter) {
    writer.beginArray()
    for bytes in list { writer.base64(bytes, padded: true) }
    writer.endArray()
  }
}
