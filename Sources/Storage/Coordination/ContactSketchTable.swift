import RelayCore
import RelayWork

/// The sketches of one process, bounded by their bytes.
///
/// Two generations: a sketch that is used moves to the young one, and when that is half of all, the old one is dropped
/// and the young one takes its place. So whoever asks often is not forgotten for those who asked once.
struct ContactSketchTable {
  private struct Entry {
    var sketch: ContactSketch
    let asked: Timestamp
    /// With what a dictionary adds.
    var byteCount: Int { sketch.byteCount + 100 }
  }

  private let bytesMax: Int
  private var entries = TwoGenerations<AccountNumber, Entry>()
  private var youngBytes = 0
  private var random = SystemRandomNumberGenerator()

  /// - Parameter bytesMax: of all sketches together; one may exceed it.
  init(bytesMax: Int = ContactSketchTable.bytesMaxDefault) { self.bytesMax = bytesMax }

  var count: Int { entries.count }

  mutating func spend(
    _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance, at now: Timestamp
  ) -> ContactSpending {
    var entry = Entry(sketch: ContactSketch(begun: now, random: &random), asked: now)
    if let former = take(account), former.asked.adding(allowance.memory) >= now { entry.sketch = former.sketch }
    let spending = entry.sketch.spend(tokens, within: allowance, at: now)
    if entry.sketch.count > 0 { put(entry, of: account) }
    return spending
  }

  private mutating func take(_ account: AccountNumber) -> Entry? {
    youngBytes -= entries.young[account]?.byteCount ?? 0
    return entries.removeValue(forKey: account)
  }

  private mutating func put(_ entry: Entry, of account: AccountNumber) {
    entries.insert(entry, for: account)
    youngBytes += entry.byteCount
    guard youngBytes >= bytesMax / 2 else { return }
    entries.turn()
    youngBytes = 0
  }

  /// Room for some 100,000 accounts with some hundred contacts each.
  static let bytesMaxDefault = 128 << 20
}
