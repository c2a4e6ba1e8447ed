import RelayCore
import TestTags
import Testing

@testable import Relay

/// Devices that no process could be told of.
@Suite(.tags(.unit)) struct UntoldDevicesTests {
  private static func devices(_ range: Range<Int>) throws -> [DeviceAddress] {
    try range.map { DeviceAddress(try #require(AccountNumber(e164: "+49151\(10_000_000 + $0)")), .master) }
  }

  @Test func `each is taken once, some at a time`() throws {
    let untold = UntoldDevices()
    let devices = try Self.devices(0..<10)
    #expect(untold.take(4) == nil)
    untold.add(devices)
    untold.add(devices.reversed())
    var taken: [DeviceAddress] = []
    while let some = untold.take(4) {
      #expect(some.count <= 4)
      taken += some
    }
    #expect(taken.count == 10 && Set(taken) == Set(devices))
  }

  @Test func `beyond the bound none is kept, and those that wait already need no room`() throws {
    let untold = UntoldDevices(devicesMax: 5)
    let devices = try Self.devices(0..<8)
    untold.add(devices[..<5])
    untold.add(devices[..<7])
    untold.putBack(Array(devices[4...]))
    #expect(untold.take(10).map(Set.init) == Set(devices[..<5]))
    #expect(untold.take(1) == nil)
  }

  @Test func `it is news that a process begins, and that it could not tell of a device`() throws {
    let untold = UntoldDevices(devicesMax: 1)
    #expect(untold.takeNews() && !untold.takeNews())
    let devices = try Self.devices(0..<3)
    // One that finds no room is news too.
    for device in devices {
      untold.add([device])
      #expect(untold.takeNews() && !untold.takeNews())
    }
    untold.add([])
    untold.putBack(untold.take(1) ?? [])
    #expect(!untold.takeNews(), "it was said before")
    untold.noteNews()
    #expect(untold.takeNews())
  }
}
