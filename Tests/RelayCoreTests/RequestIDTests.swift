import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct RequestIDTests {
  @Test(arguments: [
    (UInt64(1), "aaaaaaaaaaaac"), (UInt64.max, "7777777777776"), (0x0123_4567_89AB_CDEF, "aerukz4jvpg66"),
  ])
  func `an id is written as base32 of its eight bytes, and is read again`(bits: UInt64, text: String) throws {
    let id = try #require(RequestID(bits: bits))
    #expect(id.description == text)
    #expect(RequestID(text) == id)
  }

  @Test(arguments: [
    "", "aaaaaaaaaaaaa", "aaaaaaaaaaaa", "aaaaaaaaaaaaaa", "AAAAAAAAAAAAC", "aaaaaaaaaaaab", "aaaaaa\naaaaac",
    "aaaaaaaaaaa1c", "ääaaaaaaaaaa",
  ])
  func `an id that no relay writes is none`(text: String) { #expect(RequestID(text) == nil) }

  @Test func `ids differ, and come back`() {
    let ids = (0..<1000).map { _ in RequestID() }
    #expect(Set(ids).count == 1000)
    #expect(ids.allSatisfy { RequestID($0.description) == $0 })
  }
}
