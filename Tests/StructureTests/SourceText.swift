/// The names of types in a file of Swift: what it declares, and what it uses.
///
/// Words in comments, in texts and behind a dot are none. A text's interpolations are code.
struct SourceText {
  /// Types at the top of the file.
  private(set) var declaredAtTop: Set<String> = []
  /// The types at the top, and the types inside them.
  private(set) var declared: Set<String> = []
  /// Words that begin with a capital, the file's own among them.
  private(set) var used: Set<String> = []

  private let bytes: [UInt8]
  private var position = 0
  private var depth = 0
  private var isBehindDot = false
  private var isBehindKeyword = false

  init(_ text: String) {
    bytes = Array(text.utf8)
    readCode(until: nil)
  }

  /// Reads code to its end, or to the parenthesis that closes an interpolation.
  private mutating func readCode(until end: UInt8?) {
    var parentheses = 0
    while let byte = next {
      switch byte {
      case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "/"): skipLine()
      case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "*"): skipBlock()
      case UInt8(ascii: "\""): readText(hashes: 0)
      case UInt8(ascii: "#") where isRawText: readText(hashes: hashCount)
      case UInt8(ascii: "("):
        parentheses += 1
        step()
      case UInt8(ascii: ")"):
        if parentheses == 0, end != nil { return }
        parentheses -= 1
        step()
      case UInt8(ascii: "{"):
        depth += 1
        step()
      case UInt8(ascii: "}"):
        depth -= 1
        step()
      case let byte where Self.isLetter(byte): readWord()
      default: step()
      }
    }
  }

  private mutating func readWord() {
    let start = position
    while let byte = next, Self.isLetter(byte) || Self.isDigit(byte) { position += 1 }
    let word = String(decoding: bytes[start..<position], as: UTF8.self)
    if Self.keywords.contains(word) {
      isBehindKeyword = true
    } else if bytes[start] >= UInt8(ascii: "A"), bytes[start] <= UInt8(ascii: "Z") {
      if isBehindKeyword {
        declared.insert(word)
        if depth == 0 { declaredAtTop.insert(word) }
      } else if !isBehindDot {
        used.insert(word)
      }
      isBehindKeyword = false
    } else {
      isBehindKeyword = false
    }
    isBehindDot = false
  }

  /// One text, whatever it is quoted by; the interpolations in it are read as code.
  private mutating func readText(hashes: Int) {
    position += hashes
    let isLong = next == Self.quote && peek(1) == Self.quote && peek(2) == Self.quote
    position += isLong ? 3 : 1
    while let byte = next {
      // A quote in a regular expression only seems to begin a text.
      if !isLong, byte == UInt8(ascii: "\n") { return }
      if byte == UInt8(ascii: "\\"), hasHashes(hashes, at: position + 1) {
        position += 1 + hashes
        if next == UInt8(ascii: "(") {
          position += 1
          readCode(until: UInt8(ascii: ")"))
        }
        position += 1
      } else if byte == Self.quote, !isLong || (peek(1) == Self.quote && peek(2) == Self.quote),
        hasHashes(hashes, at: position + (isLong ? 3 : 1))
      {
        position += (isLong ? 3 : 1) + hashes
        return
      } else {
        position += 1
      }
    }
  }

  private mutating func skipLine() {
    while let byte = next, byte != UInt8(ascii: "\n") { position += 1 }
  }

  private mutating func skipBlock() {
    position += 2
    while next != nil, !(next == UInt8(ascii: "*") && peek(1) == UInt8(ascii: "/")) { position += 1 }
    position += 2
  }

  private mutating func step() {
    isBehindDot = next == UInt8(ascii: ".")
    position += 1
  }

  private var next: UInt8? { peek(0) }
  private func peek(_ distance: Int) -> UInt8? {
    position + distance < bytes.count ? bytes[position + distance] : nil
  }
  private var hashCount: Int { bytes[position...].prefix { $0 == UInt8(ascii: "#") }.count }
  private var isRawText: Bool { peek(hashCount) == Self.quote }
  private func hasHashes(_ count: Int, at index: Int) -> Bool {
    (index..<index + count).allSatisfy { $0 < bytes.count && bytes[$0] == UInt8(ascii: "#") }
  }

  private static let quote = UInt8(ascii: "\"")
  private static let keywords: Set = ["struct", "class", "enum", "actor", "protocol", "typealias"]
  private static func isLetter(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "_") || (byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z"))
  }
  private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}
