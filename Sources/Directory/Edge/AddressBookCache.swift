import RelayCore
import RelayWork
import Synchronization

/// The address books that each account asked for lately. An account that asks for the same one again costs no round
/// trip to the shared budgets.
///
/// The last few books of each account are kept, as 63 bits each: another book is taken for one of them with a chance
/// of 2^-61. They are in this process's memory alone, for a day and a half at most. So the shared budgets hear now
/// and then of an account that asks every day.
final class AddressBookCache: Sendable {
  /// The sum of what a secret makes of each token: equal for equal tokens in any order. Never 0.
  struct Digest: Sendable, Hashable { fileprivate let bits: UInt64 }

  /// The last books of one account, the newest first; 0 for none.
  private struct Shelf {
    var bits: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    func holds(_ book: UInt64) -> Bool { bits.0 == book || bits.1 == book || bits.2 == book || bits.3 == book }
    mutating func add(_ book: UInt64) { bits = (book, bits.0, bits.1, bits.2) }
  }

  private let shelves: Mutex<AgedGenerations<AccountNumber, Shelf, ContinuousClock.Instant>>
  private let secret: (UInt64, UInt64, UInt64, UInt64)

  private static let generationLife = Duration.seconds(12 * 3600)

  /// - Parameters:
  ///   - capacity: accounts at most; some 100 bytes each.
  ///   - now: when it begins.
  init(
    capacity: Int = 100_000, now: ContinuousClock.Instant = .now, random: () -> UInt64 = { .random(in: .min ... .max) }
  ) {
    shelves = Mutex(AgedGenerations(capacity: capacity, life: Self.generationLife, began: now))
    secret = (random(), random(), random(), random())
  }

  func digest(of tokens: [ContactToken]) -> Digest {
    let (a, b, c, d) = secret
    var sum: UInt64 = 0
    for token in tokens {
      let first = Self.mix(token.high ^ a, (UInt64(token.low) &* 0x9E37_79B9_7F4A_7C15) ^ b)
      sum &+= Self.mix(first ^ c, first &+ d)
    }
    return Digest(bits: Self.mix(sum ^ a, UInt64(tokens.count) ^ d) | 1)
  }

  /// Whether `account` has asked for it lately.
  func holds(_ digest: Digest, of account: AccountNumber, at now: ContinuousClock.Instant = .now) -> Bool {
    shelves.withLock { shelves in
      shelves.turnIfOld(at: now)
      return shelves.young[account]?.holds(digest.bits) ?? false || shelves.old[account]?.holds(digest.bits) ?? false
    }
  }

  func add(_ digest: Digest, of account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    shelves.withLock { shelves in
      // Nothing moves from the old generation into the young one.
      shelves.turnIfOld(at: now)
      var shelf = shelves.young[account] ?? Shelf()
      guard !shelf.holds(digest.bits) else { return }
      shelf.add(digest.bits)
      shelves.insert(shelf, for: account, at: now)
    }
  }

  /// Both halves of the product: no bit of either factor is without effect.
  @inline(__always)
  private static func mix(_ a: UInt64, _ b: UInt64) -> UInt64 {
    let product = a.multipliedFullWidth(by: b)
    return product.high ^ product.low
  }
}
