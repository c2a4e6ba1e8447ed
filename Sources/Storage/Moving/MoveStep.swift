/// The rows to replace in the target so that it has what the source has, up to some key. No I/O.
struct MoveStep: Sendable, Equatable {
  /// Keys of rows that go.
  private(set) var removed: [[MovedValue]] = []
  /// Rows that come.
  private(set) var added: [MovedRow] = []
  /// How many rows of the source were looked at.
  let rows: Int
  /// Rows that were otherwise, or there on one side alone.
  private(set) var changed = 0
  /// Up to where both were looked at; nil for their ends.
  let end: [MovedValue]?

  /// - Parameters:
  ///   - source: what follows one key there, ascending.
  ///   - target: what follows it here.
  ///   - pageRows: a page of as many has more behind it.
  init(source: [MovedRow], target: [MovedRow], pageRows: Int) {
    let ends = [source, target].compactMap { $0.count >= pageRows ? $0.last?.key : nil }
    let end = ends.min { $0.lexicographicallyPrecedes($1) }
    self.end = end
    let theirs = source.prefix { row in end.map { !row.isBehind($0) } ?? true }
    let ours = target.prefix { row in end.map { !row.isBehind($0) } ?? true }
    rows = theirs.count
    var known = Dictionary(ours.map { ($0.key, $0) }) { first, _ in first }
    for row in theirs {
      let former = known.removeValue(forKey: row.key)
      guard former != row else { continue }
      if former != nil { removed.append(row.key) }
      added.append(row)
      changed += 1
    }
    // Without order: they are removed together.
    removed += known.keys
    changed += known.count
  }
}
