package import Logging
package import RelayCore
import RelayHTTP
import RelayWork

/// Notes on which day a device was last seen: by it registration locks hold and linked devices stay active (reference
/// 3.1).
package struct LastSeen: Sendable {
  private struct Seen: Sendable {
    let device: DeviceAddress
    let day: Timestamp
  }

  private let store: any AccountStore
  private let accounts: AccountCache
  private let clock: WallClock
  private let staying: Batcher<Seen>

  /// - Parameter gathering: how long the notes on devices that stay connected wait for others.
  package init(
    store: any AccountStore, accounts: AccountCache, clock: WallClock, gathering: Duration = .seconds(10),
    logger: Logger
  ) {
    self.store = store
    self.accounts = accounts
    self.clock = clock
    staying = Batcher(
      retryingBatchesOf: Self.notesPerStatement, waitingMax: Self.notesMax, rest: .init(gathering: gathering)
    ) { seen in
      await Self.write(seen, store, accounts, logger)
      return []
    }
  }

  /// Writes the day down unless it is known already, so once a day. Best effort: the next request tries again.
  func note(_ caller: Caller, logger: Logger) async {
    guard let device = caller.account.device(caller.address.device) else { return }
    let today = clock.now().startOfDay
    guard device.lastSeen < today else { return }
    var change = DeviceChange()
    change.lastSeen = .set(today)
    do throws(Problem) {
      try await accounts.update(caller.address, change, in: store)
    } catch {
      logger.debug("a device's day was not noted", metadata: ["reason": "\(error.kind.rawValue)"])
    }
  }

  /// The same for a device that stays connected: behind the caller, together with others, and without a signal. Such a
  /// device was seen the day before, so nobody takes it for inactive.
  /// - Parameter draw: any number of its own.
  func noteStaying(_ device: Device, at address: DeviceAddress, draw: UInt64) {
    // A note that finds no room comes with the device's next check.
    if let day = dueDay(of: device, draw: draw) { staying.add(Seen(device: address, day: day)) }
  }

  /// The days of all devices that stay connected would be written at midnight. Each has a moment of the day's first
  /// hour instead, which `draw` decides.
  /// - Returns: nil when there is nothing to note now.
  func dueDay(of device: Device, draw: UInt64) -> Timestamp? {
    let now = clock.now()
    let today = now.startOfDay
    guard now.millis - today.millis >= Int64(draw % Self.spreadMillis), device.lastSeen < today else { return nil }
    return today
  }

  private static func write(
    _ seen: [Seen], _ store: any AccountStore, _ accounts: AccountCache, _ logger: Logger
  ) async {
    for (day, some) in Dictionary(grouping: seen, by: \.day) {
      do throws(StoreError) {
        accounts.seen(try await store.noteSeen(some.map(\.device), on: day), on: day)
      } catch {
        logger.debug("the day of devices was not noted", metadata: ["error": "\(error)"])
      }
    }
  }

  private static let spreadMillis: UInt64 = 3_600_000
  private static let notesPerStatement = 500
  /// All connections of a process.
  private static let notesMax = 200_000
}
