import RelayCore
import Synchronization

/// The form of tokens in a store, asked once: it changes only while no relay works on it. If a process missed that,
/// the tables themselves refuse it: from then on they take tokens of one kind alone.
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
