import RelayCore
import RelayWork

extension Nudge {
  /// Wakes a reader of the directory's feed until the task is cancelled: by `signals`, which may be lost, and every
  /// `poll` without them.
  ///
  /// - Parameter beat: called as often, also while a reading is under way.
  func wake(byFeed signals: any SignalBus, every poll: Duration, beat: () -> Void) async {
    signals.listen { event in
      switch event {
      case .signal(.accountChanged), .signal(.peersChanged), .signal(.contactsChanged), .connected: wake()
      case .signal(.wakesAsked), .disconnected: break
      }
    }
    for await _ in Periodic(every: poll) {
      wake()
      beat()
    }
  }
}
