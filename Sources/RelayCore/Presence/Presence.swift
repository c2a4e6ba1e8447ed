// Presence of devices, and the word that something waits. The processes of one operator share both, and all of it may
// be lost: every connected device reads the store again after a while anyway (docs/delivery.md).

/// A live connection of a device, as the processes tell each other of it.
package struct LiveConnection: Sendable, Hashable {
  package let device: DeviceAddress
  /// Drawn at random: no other connection of the operator has it.
  package let id: UInt64
  /// When it was opened, by the clock of its process. `Presence` makes of it what all processes can compare: the newest
  /// connection of a device is the one that stays, in whatever order the processes speak of them.
  package let opened: ContinuousClock.Instant
  package init(device: DeviceAddress, id: UInt64, opened: ContinuousClock.Instant) {
    self.device = device
    self.id = id
    self.opened = opened
  }
}

/// The address at which a device that is about to be linked waits for the other device's word (reference 1.14).
package struct ProvisioningAddress: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "provisioning address"
  /// 16 random bytes, URL-safe base64 without padding: 22 characters.
  package let text: String

  /// - Parameter bytes: 16.
  package init?(bytes: [UInt8]) {
    guard bytes.count == Self.byteCount else { return nil }
    text = Base64.encodeURLSafe(bytes)
  }
  /// - Returns: nil for what is not the text of an address.
  package init?(_ text: String) {
    guard text.utf8.count == 22, Base64.decode(text)?.count == Self.byteCount,
      text.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "/") })
    else { return nil }
    self.text = text
  }
  package static let byteCount = 16
}

/// An event that a process hears from the others.
package enum PresenceEvent: Sendable, Equatable {
  /// Something was stored for these devices, which this process holds or held: they should read the store.
  case wakeUp([DeviceAddress])
  /// A newer connection of the device stands, here or elsewhere: this one ends.
  case displaced(DeviceAddress, connection: UInt64)
  /// For who waits at that address.
  case handedOver([UInt8], to: ProvisioningAddress)
  /// From here on every word arrives. Said first, and again after each `disconnected`.
  case connected
  /// Words may be missed until the next `connected`.
  case disconnected
}

/// The outcome of a wake-up.
package struct WakeUpOutcome: Sendable, Equatable {
  /// Devices that are not connected anywhere. In no order.
  package var absent: [DeviceAddress]
  /// Devices whose processes were not reached, or are not known, in no order: those that are connected read the store
  /// by themselves before long. The processes of all others were told.
  package var unknown: [DeviceAddress]

  package init(absent: [DeviceAddress] = [], unknown: [DeviceAddress] = []) {
    self.absent = absent
    self.unknown = unknown
  }
}

/// Presence and wake-ups among the processes of one operator. Best effort: nothing here throws.
///
/// A process knows its own connections by itself; this tells it of the others'.
package protocol Presence: Sendable {
  /// Notes that this process holds `connection`. It takes the place of an older one of its device, and of any that
  /// this process held before; the process that held that is told `displaced`. A younger one that another process
  /// holds stays, and this process is told `displaced`: the connection was opened while shared state was away, and
  /// comes late.
  /// - Returns: false while shared state is away: then the connection is still to be noted, by `enter`.
  func enter(_ connection: LiveConnection) async -> Bool
  /// Forgets the connection, unless another one has taken its place.
  func leave(_ connection: LiveConnection) async
  /// Forgets the entries of `devices` that name this process, which holds none of them: they were left behind, by a
  /// connection that ended while shared state was away.
  /// - Returns: false while shared state is away: then they stand until they expire.
  func forget(_ devices: [DeviceAddress]) async -> Bool
  /// Renews the entries of `connections`, which were noted by `enter`, well before they expire (`Self.lifetime`); in
  /// few round trips, however many. An entry that is another connection's meanwhile is treated as by `enter`.
  func renew(_ connections: [LiveConnection]) async -> PresenceRenewal
  /// Tells the processes that hold `devices`, other processes or this one, in one round trip.
  func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome

  /// Says that this process lives: to be called several times within `silence`.
  /// - Returns: how many processes have not said so for `silence`. They may have died before they told of what they
  ///   stored. Each counts once, for one caller. 0 while shared state is away.
  func rollCall(silence: Duration) async -> Int

  /// Notes that someone waits here at `address`, for at most `Self.lifetime` unless noted again.
  func enter(_ address: ProvisioningAddress) async
  /// Forgets that someone waits here at `address`. An entry that names another process stays.
  func leave(_ address: ProvisioningAddress) async
  /// Hands `bytes` to whoever waits at `address`, on whatever process.
  /// - Returns: false when nobody does, as far as is known.
  func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool

  /// Calls `handler` for each event, in order, on a thread of its own: it must not block. The present state is reported
  /// at once.
  func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void)
}

extension Presence {
  /// How long an entry holds unless it is renewed: a process that died is forgotten after it.
  package static var lifetime: Duration { .seconds(60) }
}

/// The outcome of a renewal of entries.
package struct PresenceRenewal: Sendable, Equatable {
  /// Connections whose entry stands again: it had been lost, or an older connection had taken it. They may have missed
  /// wake-ups.
  package var regained: [LiveConnection] = []
  /// Connections whose entry could not be written. It may expire, and then nobody finds them.
  package var unwritten: [LiveConnection] = []

  package init() {}
}
