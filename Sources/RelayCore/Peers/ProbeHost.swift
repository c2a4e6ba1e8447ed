/// The account of this relay that other operators may send test messages to (docs/federation.md, "The probe account").
/// Implemented by Relay, used by Federation and by `relay peer test`.
package protocol ProbeHost: Sendable {
  /// Makes the account where there is none, and gives it keys where they run out. Safe to repeat.
  func prepare() async throws(Problem) -> AccountNumber
  /// Takes what came from `relay` out of the account's mailbox, and with it what has lain there for long.
  /// - Returns: the senders' times of what came from `relay`, in the order of acceptance.
  func collect(from relay: RelayName) async throws(Problem) -> [Timestamp]
}
