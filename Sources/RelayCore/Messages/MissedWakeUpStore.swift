/// The word of processes, in the store, that devices may have messages which nobody woke them for: a process that does
/// not reach Redis reaches the store.
package protocol MissedWakeUpStore: Sendable {
  /// A number that is another one after each `noteMissedWakeUps`.
  func missedWakeUps() async throws(StoreError) -> Int64
  /// Has all processes read the mailboxes of the devices that are connected to them.
  func noteMissedWakeUps() async throws(StoreError)
}
