import Foundation
import RelayCore
import TestTags
import Testing

/// Answers of the directory.
@Suite(.tags(.unit)) struct ContactAnswerTests {
  private static func entry(
    _ high: UInt64, _ low: UInt16 = 0, relay: String? = nil, sms: Bool = false, voice: Bool = false
  ) throws -> DirectoryEntry {
    let name = try relay.map { try #require(RelayName($0)) }
    return DirectoryEntry(
      token: ContactToken(high: high, low: low), relay: name, supportsSMS: sms, voice: voice)
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  @Test func `entries leave out what is not set, and stand in the order in which they were added`() throws {
    var answer = ContactAnswer(room: 0)
    for entry in [
      try Self.entry(0), try Self.entry(.max, .max, relay: "peer.example"), try Self.entry(1, sms: true),
      try Self.entry(2, relay: "a_b-c", sms: true, voice: true), try Self.entry(3, voice: true),
    ] {
      answer.add(entry)
    }
    #expect(
      Self.text(answer.finish()) == #"{"contacts":[{"token":"AAAAAAAAAAAAAA"},"#
        + #"{"token":"/////////////w","relay":"peer.example"},{"token":"AAAAAAAAAAEAAA","supportsSms":true},"#
        + #"{"token":"AAAAAAAAAAIAAA","relay":"a_b-c","supportsSms":true,"voice":true},"#
        + #"{"token":"AAAAAAAAAAMAAA","voice":true}]}"#)
    #expect(Self.text(ContactAnswer(room: 10).finish()) == #"{"contacts":[]}"#)
    #expect(
      Self.text(ContactAnswer.bare(try Self.entry(0, voice: true))) == #"{"token":"AAAAAAAAAAAAAA","voice":true}"#)
  }

  @Test func `tokens are written as base64 writes them`() throws {
    var random = SeededGenerator(seed: 11)
    for _ in 0..<5000 {
      let token = ContactToken(high: random.next(), low: UInt16(truncatingIfNeeded: random.next()))
      var answer = ContactAnswer(room: 1)
      answer.add(token, relay: nil, supportsSMS: false, voice: false)
      #expect(Self.text(answer.finish()) == #"{"contacts":[{"token":"\#(token.base64)"}]}"#)
      #expect(token.base64 == Data(token.bytes).base64EncodedString().filter { $0 != "=" })
    }
  }

  @Test func `changes are told with what is gone and where to go on`() throws {
    let place = DirectoryPlace(generation: 5, revision: 77, position: 3)
    var answer = ContactAnswer(room: 1)
    answer.add(try Self.entry(0))
    let removed = [ContactToken(high: 1, low: 0), ContactToken(high: 2, low: 0)]
    #expect(
      Self.text(answer.finish(removed: removed, cursor: place, isComplete: false))
        == #"{"contacts":[{"token":"AAAAAAAAAAAAAA"}],"removed":["AAAAAAAAAAEAAA","AAAAAAAAAAIAAA"],"#
        + #""cursor":"5-77","complete":false}"#)
    #expect(
      Self.text(ContactAnswer(room: 0).finish(removed: [], cursor: place, isComplete: true))
        == #"{"contacts":[],"removed":[],"cursor":"5-77","complete":true}"#)
  }

  @Test func `a cursor is read back, and what is none is none`() {
    for (generation, revision) in [(0, 0), (1, .max), (.max, 1), (-1, 2), (.min, 3)] as [(Int64, UInt64)] {
      let place = DirectoryPlace(generation: generation, revision: revision)
      #expect(DirectoryPlace(cursorText: place.cursorText) == place)
    }
    for text in [
      "", "-", "1", "1-", "-1", "1-2-3", "a-1", "1-+2", " 1-2", "1-18446744073709551616", "18446744073709551616-1",
      String(repeating: "0", count: 40) + "-1", "\u{661}-1",
    ] {
      #expect(DirectoryPlace(cursorText: text) == nil, "\(text)")
    }
  }
}
