import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct WriteRefusalsTests {
  @Test func `a nearly full disk, which takes some writes, counts as full until nothing was refused for a while`() {
    let refusals = WriteRefusals()
    #expect(refusals.reason == nil)
    refusals.overcome(after: .zero)
    refusals.refused("its disk is full")
    // A write that succeeds right behind a refusal.
    refusals.overcome(after: .seconds(3600))
    #expect(refusals.reason == "its disk is full")
    refusals.overcome(after: .zero)
    #expect(refusals.reason == nil)
  }
}
