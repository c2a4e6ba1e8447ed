import Logging
package import RelayCore
import RelayHTTP

/// Notes on which day a device was last seen: by it registration locks hold and linked devices stay active (reference
/// 3.1).
package struct LastSeen: Sendable {
  private let store: any AccountStore
  private let accounts: AccountCache
  private let clock: WallClock

  package init(store: any AccountStore, accounts: AccountCache, clock: WallClock) {
    self.store = store
    self.accounts = accounts
    self.clock = clock
  }

  /// Writes the day down unless it is known already, so once a day. Best effort: the next request tries again.
  func note(_ caller: Caller, logger: Logger) async {
    guard let device = caller.account.device(caller.address.device) else { return }
    await note(device, at: caller.address, logger: logger)
  }

  private func note(_ device: Device, at address: DeviceAddress, logger: Logger) async {
    let today = clock.now().startOfDay
    guard device.lastSeen < today else { return }
    var change = DeviceChange()
    change.lastSeen = .set(today)
    do throws(Problem) {
      try await accounts.update(address, change, in: store)
    } catch {
      logger.debug("a device's day was not noted", metadata: ["reason": "\(error.kind.rawValue)"])
    }
  }

  /// The same for a device that stays connected. These would all be written at midnight: each has a moment of the day's
  /// first hour instead, which `draw`, any number of its own, decides.
  func noteStaying(_ device: Device, at address: DeviceAddress, draw: UInt64, logger: Logger) async {
    let now = clock.now()
    guard now.millis - now.startOfDay.millis >= Int64(draw % Self.spreadMillis) else { return }
    await note(device, at: address, logger: logger)
  }

  private static let spreadMillis: UInt64 = 3_600_000
}
