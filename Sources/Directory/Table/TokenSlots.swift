// The memory of a token table: flat slots, read by any number of threads while one writes.

import Atomics
import CPrefetch
import Glibc
import RelayCore

/// Slots of 12 bytes, open addressing, linear probing: a token's last two bytes and its entry in the first word, its
/// first eight bytes behind.
///
/// A slot is free while its first word is 0. Its writer lays the eight bytes down first and publishes the word after
/// them; from then on the token never changes, only the entry, which is part of the one word. So a reader needs no
/// lock: it sees a token whole or not at all.
///
/// Tokens are hashes, but a peer may list what it likes: their places depend on a secret of the process, so that
/// nobody can aim many at one place.
final class TokenSlots: @unchecked Sendable {  // Words are atomic; everything else is written before they are.
  /// The size of the memory in slots. Less than three quarters are ever used.
  let capacity: Int
  /// The memory, for `TokenTable.withRawSlots`.
  let base: UnsafeMutableRawPointer
  private let end: UnsafeMutableRawPointer
  let secret: UInt64
  private let factor: UInt64

  static let stride = 12
  var byteCount: Int { capacity * Self.stride }

  /// All slots are free.
  /// - Parameter capacity: 1 or more.
  /// - Returns: nil when there is no such memory.
  init?(capacity: Int, secret: UInt64) {
    let (bytes, isTooMuch) = capacity.multipliedReportingOverflow(by: Self.stride)
    guard capacity > 0, !isTooMuch,
      let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), memory != MAP_FAILED
    else { return nil }
    // Huge pages mean fewer misses in the table of pages: a fifth to a half more look-ups a second. If the system has
    // none, the table works without.
    madvise(memory, bytes, MADV_HUGEPAGE)
    self.capacity = capacity
    base = memory
    end = memory + bytes
    self.secret = secret
    factor = (secret &* 0x9E37_79B9_7F4A_7C15) | 1
  }

  deinit { munmap(base, byteCount) }

  /// The slot at which the search for `token` begins.
  @inline(__always)
  func place(of token: ContactToken) -> UnsafeMutableRawPointer {
    let mixed = (token.high ^ secret) &+ (UInt64(token.low) &* 0xD6E8_FEB8_6659_FD93)
    let product = mixed.multipliedFullWidth(by: factor)
    let index = (product.high ^ product.low).multipliedFullWidth(by: UInt64(truncatingIfNeeded: capacity)).high
    return base + (Int(truncatingIfNeeded: index) &* Self.stride)
  }

  @inline(__always)
  func prefetch(_ place: UnsafeMutableRawPointer) { relay_prefetch(place) }

  /// - Parameter place: of `token`.
  /// - Returns: the entry's bits; 0 when it is not there.
  @inline(__always)
  func bits(of token: ContactToken, from place: UnsafeMutableRawPointer) -> UInt16 {
    var slot = place
    while true {
      let word = Self.word(slot).load(ordering: .acquiring)
      if word == 0 { return 0 }
      if UInt16(truncatingIfNeeded: word &>> 16) == token.low, Self.high(slot) == token.high {
        let bits = UInt16(truncatingIfNeeded: word)
        return bits & TokenEntry.removedBit == 0 ? bits : 0
      }
      slot = next(slot)
    }
  }

  enum Write { case added, revived, replaced }

  /// Called by one thread at a time, with room left.
  func put(_ token: ContactToken, _ bits: UInt16) -> Write {
    let word = UInt32(token.low) &<< 16 | UInt32(bits)
    var slot = place(of: token)
    while true {
      let present = Self.word(slot).load(ordering: .relaxed)
      if present == 0 {
        slot.storeBytes(of: token.high, toByteOffset: 4, as: UInt64.self)
        Self.word(slot).store(word, ordering: .releasing)
        return .added
      }
      if UInt16(truncatingIfNeeded: present &>> 16) == token.low, Self.high(slot) == token.high {
        Self.word(slot).store(word, ordering: .releasing)
        return UInt16(truncatingIfNeeded: present) & TokenEntry.removedBit == 0 ? .replaced : .revived
      }
      slot = next(slot)
    }
  }

  /// Called by one thread at a time.
  /// - Returns: whether it was there.
  func remove(_ token: ContactToken) -> Bool {
    var slot = place(of: token)
    while true {
      let present = Self.word(slot).load(ordering: .relaxed)
      if present == 0 { return false }
      if UInt16(truncatingIfNeeded: present &>> 16) == token.low, Self.high(slot) == token.high {
        guard UInt16(truncatingIfNeeded: present) & TokenEntry.removedBit == 0 else { return false }
        Self.word(slot).store(present | UInt32(TokenEntry.removedBit), ordering: .releasing)
        return true
      }
      slot = next(slot)
    }
  }

  /// Called by one thread at a time: removes every token whose bits `isMeant` picks, in one pass.
  func removeAll(where isMeant: (UInt16) -> Bool, _ removed: (ContactToken) -> Void) {
    var slot = base
    while slot < end {
      let word = Self.word(slot).load(ordering: .relaxed)
      let bits = UInt16(truncatingIfNeeded: word)
      if word != 0, bits & TokenEntry.removedBit == 0, isMeant(bits) {
        Self.word(slot).store(word | UInt32(TokenEntry.removedBit), ordering: .releasing)
        removed(ContactToken(high: Self.high(slot), low: UInt16(truncatingIfNeeded: word &>> 16)))
      }
      slot += Self.stride
    }
  }

  /// Calls `body` with every token that is there in the slots of `range`, and its bits: ascending by place. Beside a
  /// writer it sees each token whole, and what is written meanwhile or not.
  /// - Parameter range: within 0..<capacity.
  func forEach(in range: Range<Int>, _ body: (ContactToken, UInt16) throws -> Void) rethrows {
    var slot = base + range.lowerBound * Self.stride
    let end = base + range.upperBound * Self.stride
    while slot < end {
      let word = Self.word(slot).load(ordering: .acquiring)
      let bits = UInt16(truncatingIfNeeded: word)
      if word != 0, bits & TokenEntry.removedBit == 0 {
        try body(ContactToken(high: Self.high(slot), low: UInt16(truncatingIfNeeded: word &>> 16)), bits)
      }
      slot += Self.stride
    }
  }

  @inline(__always)
  private func next(_ slot: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
    let next = slot + Self.stride
    return next == end ? base : next
  }

  @inline(__always)
  private static func word(_ slot: UnsafeMutableRawPointer) -> UnsafeAtomic<UInt32> {
    // The slots begin at multiples of 4 in memory that holds nothing else.
    UnsafeAtomic(at: slot.assumingMemoryBound(to: UInt32.AtomicRepresentation.self))
  }

  @inline(__always)
  private static func high(_ slot: UnsafeMutableRawPointer) -> UInt64 {
    slot.loadUnaligned(fromByteOffset: 4, as: UInt64.self)
  }
}
