import RelayCore
import Synchronization

/// How tokens lie in a store, asked once: it changes only while no relay works on it. Whoever missed that is refused by
/// the tables themselves, which take tokens of one kind alone from then on.
final class KnownTokens: Sendable {
  private let known = Mutex<TokenSealer?>(nil)

  var value: TokenSealer? { known.withLock { $0 } }

  /// - Returns: `tokens`.
  func remember(_ tokens: TokenSealer) -> TokenSealer {
    known.withLock { $0 = tokens }
    return tokens
  }

  /// They may have been sealed meanwhile.
  func forget() { known.withLock { $0 = nil } }
}
