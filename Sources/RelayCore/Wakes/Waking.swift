// How devices that nobody holds a connection of come to be woken by push (docs/waking.md).

/// Asks that devices be woken by push. Implemented by Waking, used by Relay's hub.
package protocol Notifier: Sendable {
  /// Something was stored for `devices`, durably, and they are connected nowhere. Returns at once; what does not fit
  /// is dropped, and found by the sweep.
  ///
  /// - Parameter isCertain: false where nobody could be asked: they are woken a little later, unless they turn out to
  ///   be connected.
  func absent(_ devices: [DeviceAddress], isCertain: Bool)
  /// The device has connected: whoever was to wake it need not. Returns at once.
  func connected(_ device: DeviceAddress)
}

/// The devices that are connected, to whatever process. Implemented by Relay, used by Waking.
package protocol LiveDevices: Sendable {
  /// Tells those of `devices` that are connected to read their mailboxes.
  /// - Returns: those that are not, and those of which nobody can tell; in no order.
  func lookAgain(_ devices: [DeviceAddress]) async -> [DeviceAddress]
}
