import RelayCore
import TestTags
import Testing

@testable import Relay

/// Which reads of accounts are too old to be kept.
@Suite(.tags(.unit)) struct ForgottenAccountsTests {
  private func number(_ index: Int) throws -> AccountNumber {
    try #require(AccountNumber(e164: "+1415555\(1000 + index)"))
  }

  @Test func `a change concerns reads of its own account alone`() throws {
    var forgotten = ForgottenAccounts()
    let (one, two) = (try number(1), try number(2))
    let begun = forgotten.mark
    forgotten.forget(one)
    #expect(!forgotten.isCurrent(one, readSince: begun))
    #expect(forgotten.isCurrent(two, readSince: begun))
    #expect(forgotten.isCurrent(one, readSince: forgotten.mark))
    let later = forgotten.mark
    forgotten.forgetAll()
    #expect(!forgotten.isCurrent(two, readSince: later))
    #expect(forgotten.isCurrent(two, readSince: forgotten.mark))
  }

  @Test func `what is remembered of changes is bounded, and no old read is kept for that`() throws {
    var forgotten = ForgottenAccounts()
    let begun = forgotten.mark
    for index in 0...ForgottenAccounts.max { forgotten.forget(try number(index)) }
    let known = Mirror(reflecting: forgotten).children.first { $0.label == "marks" }?.value as? [AccountNumber: UInt64]
    #expect(try #require(known).count <= ForgottenAccounts.max)
    for index in [0, 1, ForgottenAccounts.max, 8000] {
      #expect(try !forgotten.isCurrent(number(index), readSince: begun))
      #expect(try forgotten.isCurrent(number(index), readSince: forgotten.mark))
    }
  }
}
