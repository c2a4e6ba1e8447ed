package import RelayCore

extension Hub: LiveDevices {
  package func lookAgain(_ devices: [DeviceAddress]) async -> [DeviceAddress] {
    let (here, others) = split(devices)
    for session in here { session.woken() }
    guard !others.isEmpty else { return [] }
    return switch await presence.wake(others) {
    case .told(let absent): absent
    case .unknown: others
    }
  }
}
