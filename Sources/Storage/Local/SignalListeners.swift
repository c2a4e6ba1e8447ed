import Dispatch
import RelayCore

/// The listeners of this process, told one event at a time, in order, on a queue of their own.
final class SignalListeners: @unchecked Sendable {  // The mutable state is touched on `queue` alone.
  private let queue = DispatchQueue(label: "relay.signals")
  private var handlers: [@Sendable (SignalEvent) -> Void] = []
  private var state: SignalEvent

  /// - Parameter initial: `.connected` or `.disconnected`: what new listeners hear first.
  init(initial: SignalEvent) { state = initial }

  /// The handler hears the present state, then everything told after this call.
  func add(_ handler: @escaping @Sendable (SignalEvent) -> Void) {
    queue.async {
      self.handlers.append(handler)
      handler(self.state)
    }
  }

  /// On return every listener has been told.
  func tell(_ event: SignalEvent) async {
    await withCheckedContinuation { (told: CheckedContinuation<Void, Never>) in
      post(event) { told.resume() }
    }
  }

  /// Tells every listener soon, after what was told before.
  func post(_ event: SignalEvent, then done: @escaping @Sendable () -> Void = {}) {
    queue.async {
      if self.isNews(event) { for handler in self.handlers { handler(event) } }
      done()
    }
  }

  /// A state that is told again is no event; a signal always is one.
  private func isNews(_ event: SignalEvent) -> Bool {
    switch event {
    case .signal: return true
    case .connected, .disconnected:
      defer { state = event }
      return event != state
    }
  }
}
