import RelayCore

/// Goes through the tokens of a table, some at a time, beside readers and a writer. Each token is seen whole. The
/// scan may see some of the writes made meanwhile, or none. Tokens that were there all the time are seen exactly
/// once.
struct TokenScan: Sendable {
  private let slots: TokenSlots
  private var place = 0

  init(_ slots: TokenSlots) { self.slots = slots }

  /// The slots of the memory as it was when the scan began.
  var slotCount: Int { slots.capacity }

  /// Calls `body` with the tokens of the next `slotsMax` slots, ascending by place.
  /// - Returns: whether there were any slots left.
  mutating func next(_ slotsMax: Int, _ body: (ContactToken, TokenEntry) throws -> Void) rethrows -> Bool {
    guard place < slots.capacity else { return false }
    let end = min(slots.capacity, place + slotsMax)
    try slots.forEach(in: place..<end) { try body($0, TokenEntry(bits: $1)) }
    place = end
    return true
  }
}
