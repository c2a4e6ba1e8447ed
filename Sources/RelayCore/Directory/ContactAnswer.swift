/// Writes what the directory knows straight into the bytes of an answer, one entry after the other (reference 1.11).
///
/// Tokens are written unpadded in the standard alphabet, since clients compare them with their own as text; properties
/// with default values are left out.
///
///     var answer = ContactAnswer(room: 2)
///     answer.add(token, relay: nil, supportsSMS: true, voice: false)
///     let json = answer.finish()  // {"contacts":[{"token":"...","supportsSms":true}]}
package struct ContactAnswer: Sendable {
  private var bytes: [UInt8] = []
  /// The last entry: those of an answer are much alike but for the token.
  private var row = Row(relay: nil, supportsSMS: false, voice: false)
  private var isFirst = true

  /// - Parameter room: entries to make room for.
  package init(room: Int) {
    // Reserved room that is not needed is never touched.
    bytes.reserveCapacity(64 + 64 * room)
    bytes.append(contentsOf: #"{"contacts":["#.utf8)
  }

  /// - Parameter relay: nil for an account of this relay.
  package mutating func add(_ token: ContactToken, relay: RelayName?, supportsSMS: Bool, voice: Bool) {
    if !row.isOf(relay, supportsSMS, voice) { row = Row(relay: relay, supportsSMS: supportsSMS, voice: voice) }
    row.set(token)
    row.append(to: &bytes, withComma: !isFirst)
    isFirst = false
  }

  package mutating func add(_ entry: DirectoryEntry) {
    add(entry.token, relay: entry.relay, supportsSMS: entry.supportsSMS, voice: entry.voice)
  }

  /// `{"contacts":[entry...]}`
  package consuming func finish() -> [UInt8] {
    bytes.append(contentsOf: "]}".utf8)
    return bytes
  }

  /// `{"contacts":[entry...],"removed":[token...],"cursor":"...","complete":bool}`, for those who ask for changes.
  /// - Parameters:
  ///   - removed: contacts that were known once and are not any more.
  ///   - isComplete: whether the entries are all that is known of what was asked for, and not only what has changed.
  package consuming func finish(removed: [ContactToken], cursor: DirectoryPlace, isComplete: Bool) -> [UInt8] {
    bytes.append(contentsOf: #"],"removed":["#.utf8)
    for (index, token) in removed.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      bytes.append(UInt8(ascii: "\""))
      bytes.append(contentsOf: token.base64.utf8)
      bytes.append(UInt8(ascii: "\""))
    }
    bytes.append(contentsOf: #"],"cursor":""#.utf8)
    bytes.append(contentsOf: cursor.cursorText.utf8)
    bytes.append(contentsOf: (isComplete ? #"","complete":true}"# : #"","complete":false}"#).utf8)
    return bytes
  }

  /// One bare entry, for `GET /v1/directory/{token}`.
  package static func bare(_ entry: DirectoryEntry) -> [UInt8] {
    var answer = ContactAnswer(room: 1)
    let begun = answer.bytes.count
    answer.add(entry)
    return Array(answer.bytes[begun...])
  }

  /// An entry with a comma before it.
  private struct Row: Sendable {
    private let relay: RelayName?
    private let supportsSMS: Bool
    private let voice: Bool
    private var bytes: [UInt8]

    private static let tokenOffset = 11

    init(relay: RelayName?, supportsSMS: Bool, voice: Bool) {
      (self.relay, self.supportsSMS, self.voice) = (relay, supportsSMS, voice)
      // A relay's name needs no escapes.
      let name = relay.map { #","relay":"\#($0.text)""# } ?? ""
      let flags = (supportsSMS ? #","supportsSms":true"# : "") + (voice ? #","voice":true"# : "")
      bytes = Array((#",{"token":"00000000000000""# + name + flags + "}").utf8)
    }

    func isOf(_ relay: RelayName?, _ supportsSMS: Bool, _ voice: Bool) -> Bool {
      self.supportsSMS == supportsSMS && self.voice == voice && self.relay == relay
    }

    mutating func set(_ token: ContactToken) {
      bytes.withUnsafeMutableBufferPointer { row in
        guard let start = row.baseAddress else { return }
        Base64.alphabet.withUnsafeBufferPointer { token.writePlainText(to: start + Self.tokenOffset, $0) }
      }
    }

    func append(to list: inout [UInt8], withComma: Bool) {
      bytes.withUnsafeBufferPointer {
        list.append(contentsOf: withComma ? $0 : UnsafeBufferPointer(rebasing: $0[1...]))
      }
    }
  }
}

/// A place in the feed as clients keep it: opaque to them.
extension DirectoryPlace {
  /// `GENERATION-REVISION`, in decimal. Changes before the revision are seen. Some changes of the revision itself may
  /// be told again.
  package var cursorText: String { "\(UInt64(bitPattern: generation))-\(revision)" }

  /// - Returns: nil for anything else: whoever sent it is told everything.
  package init?(cursorText text: some StringProtocol) {
    let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    guard parts.count == 2, text.utf8.count <= 41, parts.allSatisfy({ $0.allSatisfy { (0x30...0x39).contains($0) } }),
      let generation = UInt64(String(decoding: parts[0], as: UTF8.self)),
      let revision = UInt64(String(decoding: parts[1], as: UTF8.self))
    else { return nil }
    self.init(generation: Int64(bitPattern: generation), revision: revision)
  }
}
