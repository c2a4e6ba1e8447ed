import CampaignModel
import RelayClient
import TestSupport

// The devices' work besides writing: they draw keys, are linked and taken out, and pass attachments.

extension CampaignPopulation {
  func drawKeys(_ random: SeededGenerator) async throws {
    var random = random
    while goesOn {
      guard let drawer = accounts.randomElement(using: &random), let other = accounts.randomElement(using: &random),
        let device = drawer.devices.first, other.number != drawer.number
      else { continue }
      await draw(.draw, device, of: other, &random)
      if Int.random(in: 0..<8, using: &random) == 0, let tired = other.devices.first {
        _ = try await tired.uploadKeys(Self.keysEach, &random)
      }
      try await Task.sleep(for: .milliseconds(Int.random(in: 50...200, using: &random)))
    }
  }

  private func draw(
    _ call: Call, _ device: CampaignDevice, of other: CampaignAccount, _ random: inout SeededGenerator
  ) async {
    let relay = other.site == device.account.site ? nil : world.sites[other.site].name
    let (entrance, place) = world.entrance(of: device.account.site, &random)
    let answer = { @Sendable (drawn: [RemoteDeviceKeys]) -> Reply in
      .keys(
        drawn.compactMap { keys in
          guard let key = keys.preKey,
            let owner = self.world.index(of: Correspondent(other.number, deviceID: keys.deviceID))
          else { return nil }
          return DrawnKey(
            of: owner, CampaignDevice.digest(key), isLastResort: key.keyID == DeviceKeys.lastResortID)
        })
    }
    _ = await world.perform(call, by: device.index, to: place, says: answer) {
      () async throws(RelayClientError) -> [RemoteDeviceKeys] in
      try await entrance.with(device.credentials).drawKeys(of: other.number, at: relay)
    }
  }

  /// One account asks for another's keys as fast as it can, in bursts: what the limiter lets pass is watched.
  func flood(_ site: Int, _ random: SeededGenerator) async throws {
    var random = random
    let own = accounts.filter { $0.site == site }
    guard own.count > 1, let flooder = own[0].devices.first else { return }
    world.history.saw(
      .limit(
        bucket: WatchedLimit.bucket, size: WatchedLimit.size, perMinute: WatchedLimit.perMinute,
        processes: CampaignSite.processes))
    while goesOn {
      for _ in 0..<WatchedLimit.size where goesOn {
        await draw(.charge(bucket: WatchedLimit.bucket), flooder, of: own[1], &random)
      }
      try await Task.sleep(for: .seconds(Double.random(in: 2...10, using: &random)))
    }
  }

  /// Devices are linked, and taken out again.
  func changeDevices(_ random: SeededGenerator) async throws {
    var random = random
    // The first of each operator is watched for its limit, and changes nothing.
    while goesOn {
      try await Task.sleep(for: .seconds(Double.random(in: 1...4, using: &random)))
      guard goesOn, let account = accounts.dropFirst(4).randomElement(using: &random) else { continue }
      if account.devices.count > 1, let last = account.devices.last {
        try await remove(last, from: account, &random)
      } else if let linked = try await Self.link(to: account, world, &random) {
        account.add(linked)
        arrivals.add.yield(linked)
      }
    }
  }

  private func remove(_ device: CampaignDevice, from account: CampaignAccount, _ random: inout SeededGenerator)
    async throws
  {
    guard let first = account.devices.first else { return }
    account.remove(device)
    device.retire()
    // Without an answer it may be there or not; asking again does no harm.
    try await eventually("\(device.index) is taken out", within: .seconds(180), every: .milliseconds(200)) {
      let (entrance, place) = world.entrance(of: account.site, &random)
      let outcome = await world.perform(.remove(device.index), by: first.index, to: place) {
        () async throws(RelayClientError) in
        try await entrance.with(first.credentials).removeDevice(device.id)
      }
      world.forget(device.index)
      if case .done = outcome { return true }
      return false
    }
  }

  /// An uploaded attachment is there, whole.
  func passAttachments(_ random: SeededGenerator) async throws {
    var random = random
    while goesOn {
      try await Task.sleep(for: .seconds(Double.random(in: 0.5...2, using: &random)))
      guard let device = accounts.randomElement(using: &random)?.devices.first else { continue }
      let blob = (0..<Self.blobBytes).map { _ in UInt8.random(in: .min ... .max, using: &random) }
      let (entrance, place) = world.entrance(of: device.account.site, &random)
      let client = entrance.with(device.credentials)
      let outcome = await world.perform(.attach, by: device.index, to: place) {
        () async throws(RelayClientError) -> Int64 in
        let slot = try await client.newAttachment()
        try await client.upload(blob, to: slot)
        return slot.id
      }
      guard case .done(let id) = outcome else { continue }
      var read = await self.read(id, by: device, with: client, at: place)
      // A URL is judged by the clock of the process that is asked: a wrong one is right again in a while.
      let deadline = ContinuousClock.now + Self.clockPatience
      while case .refused(403) = read, ContinuousClock.now < deadline {
        try await Task.sleep(for: .seconds(1))
        read = await self.read(id, by: device, with: client, at: place)
      }
      switch read {
      case .done(blob), .refused(503), .unknown: break
      case .done: world.history.saw(.odd("\(place): an attachment of \(device.index) has changed"))
      case .refused(let status):
        world.history.saw(.odd("\(place): an attachment of \(device.index) is not there: \(status)"))
      }
    }
  }

  private func read(
    _ id: Int64, by device: CampaignDevice, with client: RelayClient, at place: Place
  ) async -> CampaignWorld.Outcome<[UInt8]> {
    await world.perform(.attach, by: device.index, to: place) { () async throws(RelayClientError) -> [UInt8] in
      try await client.attachment(id, bytesMax: 2 * Self.blobBytes)
    }
  }

  private static let blobBytes = 16 << 10
  /// Longer than a clock is wrong, and than it takes until a process sees that it is not.
  private static let clockPatience = Duration.seconds(30)
}
