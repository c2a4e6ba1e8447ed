/// Divides a batch for calls that fail as a whole, so that what makes them fail ends up alone, and behind all others.
///
/// - Returns: groups of 1 to `max` that failed equally often, those that failed least first. Every second failure
///   halves what goes together.
func failureGroups<Item>(of items: [Item], max: Int, failures: (Item) -> Int) -> [[Item]] {
  var groups: [[Item]] = []
  for (count, members) in Dictionary(grouping: items, by: failures).sorted(by: { $0.key < $1.key }) {
    let size = Swift.max(1, max >> (count / 2))
    groups += stride(from: 0, to: members.count, by: size).map {
      Array(members[$0..<min($0 + size, members.count)])
    }
  }
  return groups
}
