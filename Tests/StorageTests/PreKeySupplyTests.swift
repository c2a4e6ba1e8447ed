import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// The keys of a draw whose devices and keys are read by statements of their own.
@Suite(.tags(.stores)) struct PreKeySupplyTests {
  @Test func `a device that was installed anew during the draw fails its own caller alone`() async throws {
    try await withPostgres { storage, _, _ in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(2)
      let devices = numbers.map { DeviceAddress($0, .master) }
      for device in devices {
        let upload = Sample.upload([1], signed: Sample.signedKey(1))
        #expect(try await storage.replacePreKeys(of: device, with: upload) == .stored)
      }
      let step = PostgresStorage.drawnDevicesStep(devices.map { WantedPreKeys(address: $0, oneTime: 1) })
      let before = try await storage.read(step)
      let upload = Sample.upload([1], identity: "another", signed: Sample.signedKey(1))
      #expect(try await storage.replacePreKeys(of: devices[0], with: upload) == .stored)
      var supply = PreKeySupply(devices: before, keys: [], devicesAfter: try await storage.read(step))
      let outcomes = numbers.map {
        supply.take(for: PreKeyDraw(account: $0, devices: [.master], oneTime: [.master], epoch: 0))
      }
      #expect(throws: StoreError.self) { try outcomes[0].get() }
      #expect(try outcomes[1].get().map(\.identityKey) == ["identity"])
    }
  }
}
