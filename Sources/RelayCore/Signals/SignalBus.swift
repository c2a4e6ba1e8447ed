/// News for other processes: a change that they may have cached the past of, or work for them.
package enum Signal: Sendable, Equatable {
  case accountChanged(AccountNumber)
  case peersChanged
  /// Contacts of some peer: the directory's feed has more.
  case contactsChanged
  /// Devices are to be woken by push, and the process that says so does not do it.
  case wakesAsked
}

package enum SignalEvent: Sendable, Equatable {
  case signal(Signal)
  /// From here on every signal arrives.
  case connected
  /// Signals may be missed until the next `connected`: what is cached may be stale.
  case disconnected
}

/// Carries signals to every process of the operator, this one included.
package protocol SignalBus: Sendable {
  /// Best effort; never throws. A signal that is lost shows as `disconnected` at its listeners.
  func publish(_ signal: Signal) async
  /// Calls `handler` for each event, in order, on the bus's own thread: it must not block. The present state is
  /// reported at once.
  func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void)
}
