import RelayCore
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct PendingCodesTests {
  @Test func `a stored code's digest is bound to number, purpose and key, and is no code`() throws {
    let codes = PendingCodes(key: SecretBytes([UInt8](repeating: 1, count: 32)))
    let others = PendingCodes(key: SecretBytes([UInt8](repeating: 2, count: 32)))
    let (one, two) = (try Sample.number(1), try Sample.number(2))
    let code = Secret("123456")
    let all = [
      codes.stored(code, .registration, of: one), codes.stored(code, .registration, of: two),
      codes.stored(code, .linking, of: one), codes.stored(Secret("123457"), .registration, of: one),
      others.stored(code, .registration, of: one),
    ].map(\.bytes)
    #expect(Set(all).count == all.count)
    #expect(all.allSatisfy { $0.count == 32 })
    #expect(codes.stored(code, .registration, of: one).bytes == all[0])
  }
}
