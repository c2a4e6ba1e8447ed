import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct PeerColumnTests {
  @Test func `serial numbers are read as they were written, and nothing else is`() {
    let serials: [[UInt8]] = [[0x0F, 0xA0], [1]]
    #expect(SerialsText.encode(serials) == "0fa0 01")
    #expect(SerialsText.decode("0fa0 01") == serials)
    #expect(SerialsText.decode("") == [])
    for text in ["+f", "-0", "0fa", "00 0g"] { #expect(SerialsText.decode(text) == nil, "\(text)") }
  }
}
