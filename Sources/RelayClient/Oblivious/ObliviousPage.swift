import RelayCore

/// A page of the outputs of registered contacts, as a relay writes it.
struct ObliviousPage: Decodable {
  let key: String
  let suggestedDigits: Int
  let outputs: String
  let homes: String
  let relays: [String]
  let next: String?

  private enum CodingKeys: String, CodingKey {
    case key
    case suggestedDigits = "prefix-suggested"
    case outputs
    case homes
    case relays
    case next
  }

  /// - Throws: `.unexpectedAnswer` unless they are ascending, of the prefix, and behind those of the page before,
  ///   each with a home.
  func outputs(
    behind last: ObliviousOutput?, in prefix: ObliviousPrefix
  ) throws(RelayClientError) -> [RegisteredOutput] {
    let size = ObliviousOutput.byteCount
    guard let bytes = Base64.decode(outputs), bytes.count.isMultiple(of: size) else {
      throw .unexpectedAnswer(status: 200, reason: "the outputs are not 8 bytes each")
    }
    let ordered = stride(from: 0, to: bytes.count, by: size).map {
      ObliviousOutput(firstBytesOf: bytes[$0..<$0 + size])
    }
    let range = prefix.range
    var former = last
    for output in ordered {
      guard range.contains(output), former.map({ $0 <= output }) ?? true else {
        throw .unexpectedAnswer(status: 200, reason: "the outputs are not in order")
      }
      former = output
    }
    let names = relays.compactMap { RelayName($0) }
    guard names.count == relays.count, let homes = Base64.decode(homes),
      let registered = ObliviousHomes.read(ordered, homes, names)
    else { throw .unexpectedAnswer(status: 200, reason: "the outputs do not say where their contacts live") }
    return registered
  }
}
