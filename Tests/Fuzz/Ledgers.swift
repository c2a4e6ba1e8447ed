import Foundation

@testable import Federation

/// Two operators' files of a day, one behind the other, with a NUL between them: either may be the other operator's.
func fuzzLedger(_ bytes: [UInt8]) {
  let parts = bytes.split(separator: 0, maxSplits: 1)
  guard parts.count == 2, let ours = try? JSONDecoder().decode(LedgerFile.self, from: Data(parts[0])),
    let theirs = try? JSONDecoder().decode(LedgerFile.self, from: Data(parts[1]))
  else { return }
  let (forth, back) = (try? LedgerComparison(ours, theirs), try? LedgerComparison(theirs, ours))
  demand((forth == nil) == (back == nil), "both operators can compare, or neither")
  demand(forth?.difference?.hour == back?.difference?.hour, "both operators see the same hour")
}
