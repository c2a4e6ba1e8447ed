import CampaignModel
import Foundation
import RelayClient
import Synchronization
import TestSupport

/// The devices of a campaign: they register, link, stay connected, write to each other, and draw each other's keys.
final class CampaignPopulation: Sendable {
  let world: CampaignWorld
  let accounts: [CampaignAccount]
  /// Devices that are to be connected.
  let arrivals: (stream: AsyncStream<CampaignDevice>, add: AsyncStream<CampaignDevice>.Continuation)
  private let isSending = Atomic(true)

  private init(_ world: CampaignWorld, _ accounts: [CampaignAccount]) {
    self.world = world
    self.accounts = accounts
    let (stream, add) = AsyncStream.makeStream(of: CampaignDevice.self)
    arrivals = (stream, add)
    for device in accounts.flatMap(\.devices) { add.yield(device) }
  }

  var devices: [CampaignDevice] { accounts.flatMap(\.devices) }

  // MARK: - Registration

  /// Registers `count` devices, one of ten of them linked to another's account, half of them at each operator.
  static func register(_ count: Int, in world: CampaignWorld, _ random: SeededGenerator) async throws
    -> CampaignPopulation
  {
    var random = random
    let lanes = min(8, count)
    let accounts = try await withThrowingTaskGroup(of: [CampaignAccount].self) { group in
      for lane in 0..<lanes {
        var draws = random.split()
        group.addTask {
          var made: [CampaignAccount] = []
          for number in stride(from: lane, to: count, by: lanes) {
            if number % 10 == 9, let account = made.last, account.devices.count < devicesMax {
              if let linked = try await link(to: account, world, &draws) { account.add(linked) }
            } else {
              made.append(try await register(at: number / lanes % world.sites.count, world, &draws))
            }
          }
          return made
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    return CampaignPopulation(world, accounts)
  }

  private static let devicesMax = 3
  static let keysEach = 20

  private static func register(at site: Int, _ world: CampaignWorld, _ random: inout SeededGenerator) async throws
    -> CampaignAccount
  {
    guard let number = PhoneNumber(TestDevice.freshNumber()) else { throw TestFailure("no number") }
    let account = try CampaignAccount(number, at: site)
    let (credentials, attributes) = (Credentials.random(for: number), DeviceAttributes.random())
    let device = try CampaignDevice(world.newDevice(), of: account, credentials, attributes, world)
    world.know(device.index, as: credentials.device)
    let (entrance, place) = world.entrance(of: site, &random)
    try await eventually("\(device.index) is registered", every: .milliseconds(200)) {
      let outcome = await world.perform(.register, by: device.index, to: place) { () async throws(RelayClientError) in
        guard let code = try await entrance.requestCode(for: number, by: .development) else { return }
        try await entrance.with(credentials).confirm(code: code, attributes: attributes)
      }
      if case .done = outcome { return true }
      return false
    }
    try await eventually("\(device.index) has keys", every: .milliseconds(200)) {
      try await device.uploadKeys(keysEach, &random)
    }
    if device.sleeps { try await sleep(device, world) }
    account.add(device)
    return account
  }

  /// From now on it is woken by push.
  private static func sleep(_ device: CampaignDevice, _ world: CampaignWorld) async throws {
    let account = TestDevice(
      number: device.account.number.e164, password: device.credentials.password, registrationID: device.registrationID)
    let json = #"{"gcmRegistrationId":"\#(CampaignPushes.token(of: device.index))","webSocketChannel":true}"#
    let relay = try world.sites[device.account.site].team.process(0)
    let answer = try await relay.send("PUT", "/v1/accounts/gcm/", json: json, as: account)
    guard answer.status == 204 || answer.status == 200 else { throw TestFailure("no push id: \(answer.status)") }
    world.history.saw(.wakes(device.index))
  }

  /// - Returns: nil when it did not come about: what has no answer is a device without keys, which nobody writes to.
  static func link(to account: CampaignAccount, _ world: CampaignWorld, _ random: inout SeededGenerator)
    async throws -> CampaignDevice?
  {
    guard let first = account.devices.first else { return nil }
    let attributes = DeviceAttributes.random()
    let index = world.newDevice()
    let (entrance, place) = world.entrance(of: account.site, &random)
    let outcome = await world.perform(.register, by: index, to: place) {
      () async throws(RelayClientError) -> RelayClient in
      let code = try await entrance.with(first.credentials).requestLinkingCode()
      return try await entrance.link(to: account.number, code: code, attributes: attributes)
    }
    guard case .done(let linked) = outcome, let credentials = linked.credentials else { return nil }
    let device = try CampaignDevice(index, of: account, credentials, attributes, world)
    world.know(index, as: credentials.device)
    // From the first attempt on others may be told to write to it.
    return try await eventually("\(index) has keys", within: .seconds(180), every: .milliseconds(200)) {
      try await device.uploadKeys(keysEach, &random) ? device : nil
    }
  }

  // MARK: - Connections

  /// Runs `body` while all devices stay connected, those that are linked meanwhile too.
  func connected<Value: Sendable>(_ random: SeededGenerator, _ body: @Sendable () async throws -> Value) async throws
    -> Value
  {
    var random = random
    let draws = random.split()
    return try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { [arrivals] in
        var draws = draws
        await withTaskGroup(of: Void.self) { group in
          for await device in arrivals.stream {
            let own = draws.split()
            group.addTask { await device.live(own) }
          }
          group.cancelAll()
        }
      }
      do {
        let value = try await body()
        arrivals.add.finish()
        group.cancelAll()
        try await group.waitForAll()
        return value
      } catch {
        arrivals.add.finish()
        throw error
      }
    }
  }

  // MARK: - Work

  /// Writes, draws keys and links devices until `stopSending`.
  /// - Parameter pause: of each of `lanes` writers between two messages.
  func work(lanes: Int, pause: Duration, _ random: SeededGenerator) async throws {
    var random = random
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<lanes {
        let draws = random.split()
        group.addTask { try await self.write(pause: pause, draws) }
      }
      for _ in 0..<2 {
        let draws = random.split()
        group.addTask { try await self.drawKeys(draws) }
      }
      for site in world.sites.indices {
        let draws = random.split()
        group.addTask { try await self.flood(site, draws) }
      }
      let draws = random.split()
      group.addTask { try await self.changeDevices(draws) }
      let others = random.split()
      group.addTask { try await self.passAttachments(others) }
      try await group.waitForAll()
    }
  }

  func stopSending() { isSending.store(false, ordering: .releasing) }
  var goesOn: Bool { isSending.load(ordering: .acquiring) && !Task.isCancelled }

  private func write(pause: Duration, _ random: SeededGenerator) async throws {
    var random = random
    while goesOn {
      let sender = Int.random(in: accounts.indices, using: &random)
      // Each writes to a few, so that order within a sender means something; one of five to the other operator.
      let friend = (sender + [1, 2, 3, 5, 8][Int.random(in: 0..<5, using: &random)]) % accounts.count
      if friend != sender, let device = accounts[sender].devices.randomElement(using: &random) {
        await send(from: device, to: accounts[friend], &random)
      }
      try await Task.sleep(for: pause)
    }
  }

  private func send(from sender: CampaignDevice, to account: CampaignAccount, _ random: inout SeededGenerator) async {
    let recipients = account.devices
    let (message, indices) = (world.newMessage(between: [sender] + recipients), recipients.map(\.index))
    let body = Array("\(message) \(UInt64.random(in: .min ... .max, using: &random))".utf8)
    let bundle = recipients.map {
      OutgoingMessage(deviceID: $0.id, registrationID: $0.registrationID, body: body, type: 1)
    }
    let relay = account.site == sender.account.site ? nil : world.sites[account.site].name
    let call = Call.submit(message: message, recipients: indices, digest: shortDigest(body))
    world.expect(message, for: indices)
    let deadline = ContinuousClock.now + Self.persistence
    // One of three goes over the sender's own connection, where it has one; what fails there goes over HTTP.
    var socket = Int.random(in: 0..<3, using: &random) == 0 ? sender.socket : nil
    while ContinuousClock.now < deadline {
      let (entrance, place) = world.entrance(of: sender.account.site, &random)
      let client = socket?.client ?? entrance.with(sender.credentials)
      let outcome = await world.perform(call, by: sender.index, to: socket?.place ?? place) {
        () async throws(RelayClientError) in
        _ = try await client.send(
          bundle, to: account.number, at: relay, timestamp: CampaignDevice.time(of: message))
      }
      switch outcome {
      case .done: return world.accepted(message, for: indices)
      case .refused(503), .unknown: break
      // Its devices have changed, or there is no room: another message tells of it.
      case .refused: return
      }
      socket = nil
      do { try await Task.sleep(for: .milliseconds(Int.random(in: 50...400, using: &random))) } catch { return }
    }
  }

  private static let persistence = Duration.seconds(120)

  // MARK: - The end

  /// Reads all mailboxes, whose devices are not connected any more.
  func readMailboxes(_ random: SeededGenerator) async throws {
    var random = random
    for device in devices {
      let (entrance, _) = world.entrance(of: device.account.site, &random, mayMiss: false)
      try await eventually("the mailbox of \(device.index) is read", within: .seconds(120), every: .milliseconds(200)) {
        do {
          try await device.readMailbox(by: entrance)
          return true
        } catch let error as RelayClientError where error.status == nil || error.status == 503 {
          return false
        }
      }
    }
  }
}
