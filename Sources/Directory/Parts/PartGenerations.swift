import RelayCore
import Synchronization

/// The newest generation of the directory that a part has told of.
///
/// A store that was put back has a new one. Each part then reads the directory anew, one sooner than another, and
/// answers by the old one meanwhile. A process that stays behind for longer uses another store: whoever has registered
/// since would be unknown to it for ever.
final class PartGenerations: Sendable {
  private struct Newest {
    let generation: Int64
    let seen: ContinuousClock.Instant
  }

  private let newest: Mutex<Newest>
  private let patience: Duration

  /// - Parameter patience: for parts of an older generation, from when a newer one is seen first.
  init(patience: Duration = .seconds(900)) {
    self.patience = patience
    newest = Mutex(Newest(generation: .min, seen: .now))
  }

  /// - Returns: whether an answer of `generation` is taken.
  func accepts(_ generation: Int64) -> Bool {
    newest.withLock { newest in
      if generation > newest.generation { newest = Newest(generation: generation, seen: .now) }
      return generation == newest.generation || .now < newest.seen + patience
    }
  }
}
