package import RelayCore
import Synchronization

// One hashed key for each connected device, which says where it is connected, with an expiry: a process that died is
// forgotten, and what a Redis without memory has lost is noted anew with the next `renew`. Each process listens on one
// channel, whatever it holds; scripts find the channels, so that many devices are looked up and told of in one step.

extension RedisCoordination {
  package func enter(_ connection: LiveConnection) async -> Bool { await hold([connection], areNew: true) != nil }

  package func leave(_ connection: LiveConnection) async {
    _ = await commands.run(
      LeaveScript.script, keys: [entryKey(connection.device)], [process + " ", HoldScript.id(of: connection)])
  }

  package func forget(_ devices: [DeviceAddress]) async -> Bool {
    for some in devices.chunks(of: Self.devicesMax) {
      let reply = await commands.run(ForgetScript.script, keys: some.map(entryKey), [process + " "])
      guard case .integer = reply else { return false }
    }
    return true
  }

  package func renew(_ connections: [LiveConnection]) async -> [LiveConnection] {
    var lost: [LiveConnection] = []
    for some in connections.chunks(of: Self.connectionsMax) {
      guard let standing = await hold(some, areNew: false) else { break }
      lost += standing
    }
    return lost
  }

  /// - Returns: those that stand and did not before; nil when Redis gave no answer.
  private func hold(_ connections: ArraySlice<LiveConnection>, areNew: Bool) async -> [LiveConnection]? {
    for _ in 0..<Self.triesMax {
      guard let clock = commands.clock else { return nil }
      var arguments = [
        Self.entryMillis, String(clock.micros(at: .now)), HoldScript.slackMicros, processChannels, process,
        areNew ? "1" : "0",
      ]
      arguments.reserveCapacity(arguments.count + 3 * connections.count)
      for connection in connections { arguments += HoldScript.arguments(connection, by: clock) }
      let reply = await commands.run(HoldScript.script, keys: connections.map { entryKey($0.device) }, arguments)
      switch HoldScript.answer(reply, count: connections.count) {
      case .held(let standing, let displaced):
        for place in displaced {
          let connection = connections[connections.startIndex + place]
          presence.post(.displaced(connection.device, connection: connection.id))
        }
        return standing.map { connections[connections.startIndex + $0] }
      // Its clock was set, or this process stood still.
      case .timeIsOff: guard await commands.askTime() else { return nil }
      case nil: return nil
      }
    }
    return nil
  }

  package func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome {
    var absent: [DeviceAddress] = []
    for some in devices.chunks(of: Self.devicesMax) {
      let reply = await commands.run(
        WakeScript.script, keys: some.map(entryKey), [processChannels] + some.map(PresenceWord.text(of:)))
      guard let places = reply?.places(below: some.count) else { return .unknown }
      absent += places.map { some[some.startIndex + $0] }
    }
    return .told(absent: absent)
  }

  package func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) { presence.add(handler) }

  private func entryKey(_ device: DeviceAddress) -> String {
    "\(prefix)device:\(RedisSlot.tag(of: device.account.e164.utf8))\(Self.hashed(PresenceWord.text(of: device)))"
  }

  private var processChannels: String { prefix + Self.processChannel }

  /// Behind the prefix, with the process's name to follow.
  static let processChannel = "process:"
  static let entryMillis = String(Int64(lifetime / .milliseconds(1)))
  /// Connections in one script: a millisecond or two, during which Redis does nothing else. Lua hands at most some
  /// 8,000 values to a call.
  private static let connectionsMax = 500
  /// One with the time as it was known, one with the time as it was asked for.
  private static let triesMax = 2
  private static let devicesMax = 1000
}

// MARK: - Addresses

extension RedisCoordination {
  /// This process's own are found without Redis.
  package func enter(_ address: ProvisioningAddress) async {
    let now = clock.now()
    addresses.withLock { $0.note(address, at: now) }
    _ = await commands.call(RedisCommand("SET", addressKey(address), process, "PX", Self.entryMillis))
  }

  package func leave(_ address: ProvisioningAddress) async {
    addresses.withLock { $0.forget(address) }
    _ = await commands.run(LeaveAddressScript.script, keys: [addressKey(address)], [process])
  }

  package func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool {
    let now = clock.now()
    if addresses.withLock({ $0.contains(address, at: now) }) {
      presence.post(.handedOver(bytes, to: address))
      return true
    }
    let reply = await commands.run(
      HandOverScript.script, keys: [addressKey(address)],
      [processChannels, PresenceWord.handOver(bytes, to: address)])
    guard case .integer(let listeners) = reply else { return false }
    return listeners > 0
  }

  private func addressKey(_ address: ProvisioningAddress) -> String {
    "\(prefix)address:\(Self.hashed(address.text))"
  }
}
