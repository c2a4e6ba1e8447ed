import RelayCore
import Synchronization

/// Which address books were asked for lately, by whom, so that whoever asks for the same one again costs no round trip to
/// the shared budgets.
///
/// Of each account the last few, as 63 bits each: another book is taken for one of them with a chance of 2^-61. In this
/// process's memory alone, for a day and a half at most: so that the shared budgets hear now and then of an account that asks
/// every day.
final class KnownBooks: Sendable {
  /// The sum of what a secret makes of each token: equal for equal tokens in any order. Never 0.
  struct Digest: Sendable, Hashable { fileprivate let bits: UInt64 }

  /// The last books of one account, the newest first; 0 for none.
  private struct Shelf {
    var bits: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    func holds(_ book: UInt64) -> Bool { bits.0 == book || bits.1 == book || bits.2 == book || bits.3 == book }
    mutating func add(_ book: UInt64) { bits = (book, bits.0, bits.1, bits.2) }
  }

  /// Two generations bound number and age without a list of uses: nothing moves from the old one into the young one.
  private struct State {
    var young: [AccountNumber: Shelf] = [:]
    var old: [AccountNumber: Shelf] = [:]
    var begun: ContinuousClock.Instant

    mutating func turn(at now: ContinuousClock.Instant) {
      // Of a generation that nobody has turned for two lives nothing is kept either.
      old = now - begun < KnownBooks.generationLife * 2 ? young : [:]
      young = [:]
      begun = now
    }
  }

  private let state: Mutex<State>
  private let generationSize: Int
  private let secret: (UInt64, UInt64, UInt64, UInt64)

  private static let generationLife = Duration.seconds(12 * 3600)

  /// - Parameters:
  ///   - capacity: accounts at most; some 100 bytes each.
  ///   - now: when it begins.
  init(
    capacity: Int = 100_000, now: ContinuousClock.Instant = .now, random: () -> UInt64 = { .random(in: .min ... .max) }
  ) {
    generationSize = max(1, capacity / 2)
    state = Mutex(State(begun: now))
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
    state.withLock { state in
      if now - state.begun >= Self.generationLife { state.turn(at: now) }
      return state.young[account]?.holds(digest.bits) ?? false || state.old[account]?.holds(digest.bits) ?? false
    }
  }

  func add(_ digest: Digest, of account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    state.withLock { state in
      if state.young[account] == nil, state.young.count >= generationSize { state.turn(at: now) }
      guard state.young[account]?.holds(digest.bits) != true else { return }
      state.young[account, default: Shelf()].add(digest.bits)
    }
  }

  /// Both halves of the product: no bit of either factor is without effect.
  @inline(__always)
  private static func mix(_ a: UInt64, _ b: UInt64) -> UInt64 {
    let product = a.multipliedFullWidth(by: b)
    return product.high ^ product.low
  }
}
