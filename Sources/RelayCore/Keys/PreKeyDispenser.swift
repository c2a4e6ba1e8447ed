/// Hands prekeys of this relay's accounts out. Implemented by Relay, used by Federation for peers.
package protocol PreKeyDispenser: Sendable {
  /// - Returns: one per active device that matches and has what `version` can show: for version 1 a prekey, for
  ///   version 2 a prekey or a signed one; never empty.
  /// - Throws: `.notFound` when there is no such active account or device, or no key.
  func draw(from account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion) async throws(Problem)
    -> [DrawnPreKey]

  /// How many keys `draw` would hand out at most: the active devices that match, from memory as a rule.
  /// - Returns: 0 where there is no such active account or device.
  func keysMax(of account: AccountNumber, devices: DeviceSelector) async throws(Problem) -> Int
}
