import RelayCore
import Synchronization

/// Devices that something was stored for, and that no other process could be told of: they are told once that is
/// possible again. Bounded: where there was no room, they find it when all mailboxes are read.
final class UntoldDevices: Sendable {
  fileprivate struct State {
    var devices: Set<DeviceAddress> = []
    /// From the beginning: a process that died may have told nobody, and it is mostly in its place that another begins.
    var isNews = true
  }

  private let state = Mutex(State())
  private let devicesMax: Int

  init(devicesMax: Int = 20_000) { self.devicesMax = devicesMax }

  func add(_ devices: some Collection<DeviceAddress>) {
    guard !devices.isEmpty else { return }
    state.withLock { state in
      state.isNews = true
      state.insert(devices, max: devicesMax)
    }
  }

  /// Devices that were taken could not be told either.
  func putBack(_ devices: [DeviceAddress]) { state.withLock { $0.insert(devices, max: devicesMax) } }

  /// Takes some of them, at most `count`; nil when there are none.
  func take(_ count: Int) -> [DeviceAddress]? {
    state.withLock { state in
      guard !state.devices.isEmpty else { return nil }
      let taken = Array(state.devices.prefix(count))
      state.devices.subtract(taken)
      return taken
    }
  }

  /// Whether all mailboxes are to be read, because of what came since this was asked last.
  func takeNews() -> Bool {
    state.withLock { state in
      defer { state.isNews = false }
      return state.isNews
    }
  }

  /// All mailboxes are to be read, and the other processes were not told yet.
  func noteNews() { state.withLock { $0.isNews = true } }
}

extension UntoldDevices.State {
  fileprivate mutating func insert(_ devices: some Collection<DeviceAddress>, max: Int) {
    for device in devices where self.devices.count < max { self.devices.insert(device) }
  }
}
