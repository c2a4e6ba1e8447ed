import Logging
import Operations
import RelayWork
import Synchronization

/// The start of a process that serves: until it is over the relay is not ready, and says why.
///
/// It waits for a store that does not answer yet: after a boot the relay may be the first to be there.
final class Start: Sendable {
  private enum State: Equatable {
    case underWay
    /// For the store, which does not answer for this reason.
    case waiting(String)
    case done
  }

  /// The process is to stop before it has begun.
  struct GivenUp: Error {}

  private let patience: Duration
  private let control: DrainControl
  private let logger: Logger
  private let began = ContinuousClock.now
  private let state = Mutex(State.underWay)

  /// - Parameters:
  ///   - patience: how long it waits for the store.
  ///   - control: who may end the wait.
  init(waitingForStore patience: Duration, unless control: DrainControl, logger: Logger) {
    self.patience = patience
    self.control = control
    self.logger = logger
  }

  /// Why the relay is not ready yet, without secrets; nil once it is over.
  var reason: String? {
    switch state.withLock(\.self) {
    case .underWay: "starting"
    case .waiting(let fault): "waiting for the store: \(fault)"
    case .done: nil
    }
  }

  /// Waits a moment before the store is asked again.
  /// - Parameter fault: without secrets.
  /// - Returns: false when it was waited for long enough.
  /// - Throws: `GivenUp`, `CancellationError`.
  func goesOn(after fault: String) async throws -> Bool {
    guard !control.isDraining else { throw GivenUp() }
    let left = patience - (ContinuousClock.now - began)
    guard left > .zero else { return false }
    if isNew(.waiting(fault)) {
      logger.notice(
        "waiting for the store",
        metadata: ["reason": "\(fault)", "seconds": "\(Int((left / .seconds(1)).rounded(.up)))"])
    }
    guard await Pause.for(min(Self.pause, left)) else { throw CancellationError() }
    return true
  }

  func storeAnswered() {
    guard isNew(.underWay) else { return }
    logger.notice(
      "the store answers", metadata: ["after-seconds": "\((ContinuousClock.now - began).components.seconds)"])
  }

  func ended() { _ = isNew(.done) }

  private func isNew(_ next: State) -> Bool {
    state.withLock { state in
      defer { state = next }
      return state != next
    }
  }

  private static let pause = Duration.milliseconds(500)
}
