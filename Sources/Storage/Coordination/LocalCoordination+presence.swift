package import RelayCore
import Synchronization

// One process knows its own connections by itself: there is nobody else to tell, and nobody who tells.

extension LocalCoordination {
  package func enter(_ connection: LiveConnection) async -> Bool { true }
  package func leave(_ connection: LiveConnection) async {}
  package func forget(_ devices: [DeviceAddress]) async -> Bool { true }
  package func renew(_ connections: [LiveConnection]) async -> [LiveConnection] { [] }
  package func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome { .told(absent: devices) }

  package func enter(_ address: ProvisioningAddress) async {
    let now = clock.now()
    addresses.withLock { $0.note(address, at: now) }
  }
  package func leave(_ address: ProvisioningAddress) async { addresses.withLock { $0.forget(address) } }

  package func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool {
    let now = clock.now()
    guard addresses.withLock({ $0.contains(address, at: now) }) else { return false }
    presence.post(.handedOver(bytes, to: address))
    return true
  }

  package func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) { presence.add(handler) }
}
