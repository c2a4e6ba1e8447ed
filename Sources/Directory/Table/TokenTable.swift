package import RelayCore
import Synchronization

/// All contact tokens that this process knows, ours and peers', in flat memory of its own.
///
/// Readers take no lock but for the moment in which they get hold of the memory, once for all tokens of a request;
/// writers take turns. When the memory fills up, a larger one is laid out beside it while readers go on with the old
/// one, which is given back when its last reader is done.
package final class TokenTable: Sendable {
  /// There is not the memory that the table would need. Nothing was changed.
  package struct OutOfMemory: Error {
    package let bytes: Int
  }

  private struct Counts {
    var live = 0
    /// Slots that removed tokens keep.
    var removed = 0
  }

  private let slots: Mutex<TokenSlots>
  private let writing = Mutex(Counts())
  /// The count in `writing`, for readers that must not wait for a writer.
  private let live = Atomic(0)

  /// A used slot in so many at most: 12 bytes a slot are 16 bytes an entry there.
  private static let loadMax = 0.75
  /// After growing: what is added and removed in a long time has room.
  private static let loadAfterGrowth = 0.6
  private static let capacityMin = 1024

  /// - Parameters:
  ///   - count: tokens to make room for.
  ///   - secret: random; where a token lies depends on it.
  package init(roomFor count: Int = 0, secret: UInt64 = .random(in: .min ... .max)) throws(OutOfMemory) {
    slots = Mutex(try Self.allocate(for: count, secret: secret))
    self.secret = secret
  }

  /// Random; where a token lies depends on it.
  let secret: UInt64

  package var count: Int { live.load(ordering: .relaxed) }
  /// The size of the memory that holds the slots.
  package var byteCount: Int { slots.withLock { $0 }.byteCount }

  /// The entry of `token`, if it is known.
  package func entry(of token: ContactToken) -> TokenEntry? {
    let slots = slots.withLock { $0 }
    let bits = slots.bits(of: token, from: slots.place(of: token))
    return bits == 0 ? nil : TokenEntry(bits: bits)
  }

  /// Looks all `tokens` up, so that their cache misses overlap.
  /// - Parameter found: called with the index of each known token and its entry, ascending.
  package func lookUp(_ tokens: borrowing Span<ContactToken>, found: (Int, TokenEntry) -> Void) {
    let slots = slots.withLock { $0 }
    withUnsafeTemporaryAllocation(of: UnsafeMutableRawPointer.self, capacity: Self.batch) { places in
      var first = 0
      while first < tokens.count {
        let count = min(Self.batch, tokens.count - first)
        for index in 0..<count {
          let place = slots.place(of: tokens[unchecked: first + index])
          slots.prefetch(place)
          places[index] = place
        }
        for index in 0..<count {
          let bits = slots.bits(of: tokens[unchecked: first + index], from: places[index])
          if bits != 0 { found(first + index, TokenEntry(bits: bits)) }
        }
        first += count
      }
    }
  }

  /// As many misses as overlap, few enough to stay in the nearest cache until they are read.
  private static let batch = 32

  /// Applies `changes` in their order. A reader may see some of them before the others.
  package func apply(_ changes: some Collection<TokenChange>) throws(OutOfMemory) {
    try write { (counts, slots) throws(OutOfMemory) in
      for change in changes {
        if let entry = change.entry {
          try self.put(change.token, entry, &counts, &slots)
        } else if slots.remove(change.token) {
          counts.live -= 1
          counts.removed += 1
        }
      }
    }
  }

  /// Adds what is not there yet, for a first load from parts that may name a token twice: an entry of this relay takes
  /// the place of a peer's and stays.
  /// - Parameter contested: called with each token that two peers' entries name; the first one stays.
  package func add(
    _ entries: some Collection<(ContactToken, TokenEntry)>, contested: (ContactToken) -> Void
  ) throws(OutOfMemory) {
    try write { (counts, slots) throws(OutOfMemory) in
      for (token, entry) in entries {
        let present = slots.bits(of: token, from: slots.place(of: token))
        if present != 0, entry.relay != 0 {
          let known = TokenEntry(bits: present).relay
          if known != 0, known != entry.relay { contested(token) }
          continue
        }
        try self.put(token, entry, &counts, &slots)
      }
    }
  }

  /// Removes every token of `relay`, in one pass over the memory (some 10 ms a million slots).
  /// - Returns: the tokens, in no order.
  @discardableResult
  package func removeAll(of relay: Int) -> [ContactToken] {
    writing.withLock { counts in
      var removed: [ContactToken] = []
      slots.withLock { $0 }.removeAll(where: { TokenEntry(bits: $0).relay == relay }) { removed.append($0) }
      counts.live -= removed.count
      counts.removed += removed.count
      live.store(counts.live, ordering: .relaxed)
      return removed
    }
  }

  /// Makes room for `count` more tokens, so that a load of many does not grow the table again and again.
  package func reserve(_ count: Int) throws(OutOfMemory) {
    try write { (counts, slots) throws(OutOfMemory) in try self.makeRoom(for: count, &counts, &slots) }
  }

  /// Calls `body` with every token, in no order. Beside a writer it sees each token whole, and what is written
  /// meanwhile or not.
  package func forEach(_ body: (ContactToken, TokenEntry) -> Void) {
    var scan = scan()
    _ = scan.next(scan.slotCount, body)
  }

  /// Begins to go through all tokens, some at a time.
  func scan() -> TokenScan { TokenScan(slots.withLock { $0 }) }

  /// The memory itself, for `relay-bench` to walk by other means; valid within `body`.
  /// - Parameter body: takes the address, how many slots of 12 bytes there are (`TokenSlots` says what is in them),
  ///   and the secret on which a token's place depends.
  package func withRawSlots<Result>(_ body: (UnsafeRawPointer, Int, UInt64) throws -> Result) rethrows -> Result {
    let slots = slots.withLock { $0 }
    return try withExtendedLifetime(slots) { try body(UnsafeRawPointer(slots.base), slots.capacity, slots.secret) }
  }

  private func write(_ body: (inout Counts, inout TokenSlots) throws(OutOfMemory) -> Void) throws(OutOfMemory) {
    let outcome = writing.withLock { counts -> Result<Void, OutOfMemory> in
      var current = slots.withLock { $0 }
      defer { live.store(counts.live, ordering: .relaxed) }
      do throws(OutOfMemory) {
        return .success(try body(&counts, &current))
      } catch {
        return .failure(error)
      }
    }
    try outcome.get()
  }

  private func put(
    _ token: ContactToken, _ entry: TokenEntry, _ counts: inout Counts, _ slots: inout TokenSlots
  ) throws(OutOfMemory) {
    try makeRoom(for: 1, &counts, &slots)
    switch slots.put(token, entry.bits) {
    case .added: counts.live += 1
    case .revived:
      counts.live += 1
      counts.removed -= 1
    case .replaced: break
    }
  }

  /// Lays the table out anew where it would be too full, without what was removed.
  private func makeRoom(for count: Int, _ counts: inout Counts, _ current: inout TokenSlots) throws(OutOfMemory) {
    guard Double(counts.live + counts.removed + count) > Self.loadMax * Double(current.capacity) else { return }
    let larger = try Self.allocate(for: counts.live + count, secret: secret)
    // Ascending by place, which is the order of places in the larger memory too: nearly no cache misses.
    current.forEach(in: 0..<current.capacity) { token, bits in _ = larger.put(token, bits) }
    counts.removed = 0
    slots.withLock { $0 = larger }
    current = larger
  }

  private static func allocate(for count: Int, secret: UInt64) throws(OutOfMemory) -> TokenSlots {
    let capacity = max(capacityMin, Int(Double(count) / loadAfterGrowth) + 1)
    guard let slots = TokenSlots(capacity: capacity, secret: secret) else {
      throw OutOfMemory(bytes: capacity * TokenSlots.stride)
    }
    return slots
  }
}

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
