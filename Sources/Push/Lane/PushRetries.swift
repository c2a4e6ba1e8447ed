/// When a push is tried again: by what kept it from being delivered, a wait after the first try, after the second, and
/// so on; as many tries as waits, and one more.
package struct PushRetries: Sendable, Equatable {
  /// The provider says that it is in trouble, or does not answer in time.
  package var server: [Duration]
  /// Too many pushes.
  package var quota: [Duration]
  /// Too many pushes, and the provider asks for a pause that is no longer than this: it is kept, whatever `quota` says.
  package var quotaPauseMax = Duration.zero
  /// No connection.
  package var unreachable: [Duration]
  /// The connection ended under the request.
  package var lost: [Duration]
  /// The provider wants another token, and the next try brings one.
  package var credentials: [Duration]

  package init(
    server: [Duration], quota: [Duration], unreachable: [Duration], lost: [Duration], credentials: [Duration] = []
  ) {
    self.server = server
    self.quota = quota
    self.unreachable = unreachable
    self.lost = lost
    self.credentials = credentials
  }

  /// Push gateway reference, 4.7. Requests on a lost connection are sent again at once, on another one.
  package static let apns = PushRetries(
    server: [.seconds(10), .seconds(20)], quota: [.seconds(120)], unreachable: [.seconds(1), .seconds(1)],
    lost: [.zero, .zero])
  /// Push gateway reference, 5.5.
  package static let fcm = PushRetries(
    server: [.seconds(10), .seconds(20)], quota: [.seconds(60), .seconds(120)],
    unreachable: [.seconds(10), .seconds(20)], lost: [.seconds(10), .seconds(20)])
  /// The reference itself tries nothing again (13, number 3). A push beyond one application's quota is tried again
  /// here only after the pause that its push service asks for.
  package static let webPush: PushRetries = {
    var retries = PushRetries.fcm
    retries.quota = []
    retries.quotaPauseMax = .seconds(30)
    return retries
  }()
  /// For those whose jobs outlive the process: what was on a connection to Apple that is lost, and nothing else.
  package static let lostConnections = PushRetries(server: [], quota: [], unreachable: [], lost: apns.lost)
  package static let none = PushRetries(server: [], quota: [], unreachable: [], lost: [])

  /// - Parameter tries: how many there were, this one included.
  /// - Returns: nil if `outcome` is final, or there were enough tries. A pause that the provider asks for goes before
  ///   the table.
  func wait(after outcome: PushOutcome, tries: Int) -> Duration? {
    guard case .temporary(let reason, let asked) = outcome else { return nil }
    if reason.kind == .quota, let asked, asked <= quotaPauseMax { return tries <= Self.pausesMax ? asked : nil }
    guard let waits = waits(for: reason), tries <= waits.count else { return nil }
    return asked ?? waits[tries - 1]
  }

  private static let pausesMax = 2

  private func waits(for reason: PushReason) -> [Duration]? {
    switch reason.kind {
    case .server: server
    case .quota: quota
    case .credentials: credentials
    case .transport:
      switch reason {
      case .lost, .lostToo, .notTaken: lost
      case .timedOut: server
      default: unreachable
      }
    case .target, .message, .local: nil
    }
  }
}
