import Dispatch
import RelayCore

/// An event for listeners. Two of them say whether listeners are told everything.
protocol ConnectionEvent: Sendable, Equatable {
  /// From here on nothing is missed.
  static var connected: Self { get }
  /// From here on events may be missed, until `connected`.
  static var disconnected: Self { get }
}
extension SignalEvent: ConnectionEvent {}
extension PresenceEvent: ConnectionEvent {}

/// The listeners of this process, told one event at a time, in order, on a queue of their own.
final class Listeners<Event: ConnectionEvent>: @unchecked Sendable {  // The mutable state is touched on `queue` alone.
  private let queue: DispatchQueue
  private var handlers: [@Sendable (Event) -> Void] = []
  private var state: Event

  /// - Parameters:
  ///   - name: of the queue, for tools.
  ///   - initial: `.connected` or `.disconnected`: what new listeners hear first.
  init(name: String, initial: Event) {
    queue = DispatchQueue(label: name)
    state = initial
  }

  /// The handler hears the present state, then everything told after this call.
  func add(_ handler: @escaping @Sendable (Event) -> Void) {
    queue.async {
      self.handlers.append(handler)
      handler(self.state)
    }
  }

  /// On return every listener has been told.
  func tell(_ event: Event) async {
    await withCheckedContinuation { (told: CheckedContinuation<Void, Never>) in
      post(event) { told.resume() }
    }
  }

  /// Tells every listener soon, after what was told before.
  func post(_ event: Event, then done: @escaping @Sendable () -> Void = {}) {
    queue.async {
      if self.isNews(event) { for handler in self.handlers { handler(event) } }
      done()
    }
  }

  /// A state that is told again is no event; all else always is one.
  private func isNews(_ event: Event) -> Bool {
    guard event == .connected || event == .disconnected else { return true }
    defer { state = event }
    return event != state
  }
}
