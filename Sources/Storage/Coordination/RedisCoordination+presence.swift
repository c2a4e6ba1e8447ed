package import RelayCore
import Synchronization

// One hashed key for each connected device, which says where it is connected, with an expiry: a process that died is
// forgotten, and what a Redis without memory has lost is noted anew with the next `renew`. Each process listens on one
// channel, whatever it holds; scripts find the channels, so that many devices are looked up and told of in one step. In
// a cluster an entry and a channel lie at different nodes: there the process that asks tells the others.

extension RedisCoordination {
  package func enter(_ connection: LiveConnection) async -> Bool { await hold([connection], areNew: true) != nil }

  package func leave(_ connection: LiveConnection) async {
    _ = await commands.run(
      LeaveScript.script, keys: [entryKey(connection.device)], [process + " ", HoldScript.id(of: connection)])
  }

  package func forget(_ devices: [DeviceAddress]) async -> Bool {
    for some in devices.chunks(of: Self.devicesMax) {
      let answers = await commands.apart(some, by: entryKey) { [self] some in
        await commands.run(ForgetScript.script, keys: some.map(entryKey), [process + " "])
      }
      guard answers.allSatisfy({ if case .integer = $0 { true } else { false } }) else { return false }
    }
    return true
  }

  package func renew(_ connections: [LiveConnection]) async -> PresenceRenewal {
    var renewal = PresenceRenewal()
    for some in connections.chunks(of: Self.connectionsMax) {
      let answers = await commands.apart(some, by: { entryKey($0.device) }) { [self] some in
        (some, regained: await hold(some, areNew: false))
      }
      for (some, regained) in answers {
        if let regained { renewal.regained += regained } else { renewal.unwritten += some }
      }
    }
    return renewal
  }

  /// - Parameter connections: their entries lie in one slot.
  /// - Returns: those that stand and did not before; nil when Redis gave no answer.
  private func hold(_ connections: ArraySlice<LiveConnection>, areNew: Bool) async -> [LiveConnection]? {
    let keys = connections.map { entryKey($0.device) }
    for _ in 0..<Self.triesMax {
      guard let clock = commands.clock(for: keys[0]) else { return nil }
      var arguments = [
        Self.entryMillis, String(clock.micros(at: .now)), HoldScript.slackMicros, scriptChannels, process,
        areNew ? "1" : "0",
      ]
      arguments.reserveCapacity(arguments.count + 3 * connections.count)
      for connection in connections { arguments += HoldScript.arguments(connection, by: clock) }
      let reply = await commands.run(HoldScript.script, keys: keys, arguments)
      switch HoldScript.answer(reply, count: connections.count) {
      case .held(let standing, let displaced, let untold):
        for place in displaced {
          let connection = connections[connections.startIndex + place]
          presence.post(.displaced(connection.device, connection: connection.id))
        }
        for word in untold { await tell(word.process, word.text) }
        return standing.map { connections[connections.startIndex + $0] }
      // Its clock was set, or this process stood still.
      case .timeIsOff: guard await commands.askTime(for: keys[0]) else { return nil }
      case nil: return nil
      }
    }
    return nil
  }

  package func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome {
    var outcome = WakeUpOutcome()
    for some in devices.chunks(of: Self.devicesMax) {
      let found = commands.scriptsReachListeners ? await wakeByScript(some) : await wakeByNodes(some)
      outcome.absent += found.absent
      outcome.unknown += found.unknown
    }
    return outcome
  }

  private func wakeByScript(_ devices: ArraySlice<DeviceAddress>) async -> WakeUpOutcome {
    let reply = await commands.run(
      WakeScript.script, keys: devices.map(entryKey), [processChannels] + devices.map(PresenceWord.text(of:)))
    guard let missed = reply?.places(below: devices.count) else { return WakeUpOutcome(unknown: Array(devices)) }
    return WakeUpOutcome(absent: missed.map { devices[devices.startIndex + $0] })
  }

  /// The same in a cluster, where entries lie at one node and a process listens at another: the entries are read, and
  /// each process is told. A node that is away is no reason not to tell the others.
  private func wakeByNodes(_ devices: ArraySlice<DeviceAddress>) async -> WakeUpOutcome {
    typealias Holders = (of: ArraySlice<DeviceAddress>, names: [String?]?)
    let answers = await commands.apart(devices, by: entryKey) { [self] some -> Holders in
      let keys = some.map(entryKey)
      guard case .array(let entries) = await commands.call(RedisCommand(["MGET"] + keys), key: keys[0]),
        entries.count == some.count
      else { return (some, nil) }
      return (some, entries.map(PresenceWord.holder))
    }
    var (outcome, held): (WakeUpOutcome, [String: [DeviceAddress]]) = (WakeUpOutcome(), [:])
    for (some, holders) in answers {
      guard let holders else {
        outcome.unknown += some
        continue
      }
      for (device, holder) in zip(some, holders) {
        if let holder { held[holder, default: []].append(device) } else { outcome.absent.append(device) }
      }
    }
    for (holder, devices) in held {
      let word = "wake " + devices.map(PresenceWord.text(of:)).joined(separator: " ")
      switch await tell(holder, word) {
      case nil: outcome.unknown += devices
      case 0: outcome.absent += devices
      default: break
      }
    }
    return outcome
  }

  /// - Returns: how many listened; nil when Redis gave no answer.
  @discardableResult
  private func tell(_ process: String, _ word: String) async -> Int64? {
    guard case .integer(let listeners) = await commands.publish(word, on: processChannels + process) else { return nil }
    return listeners
  }

  package func rollCall(silence: Duration) async -> Int {
    let key = prefix + "processes"
    let silenceMillis = String(Int64(silence / .milliseconds(1)))
    guard case .integer(let dead) = await commands.run(RollCallScript.script, keys: [key], [process, silenceMillis])
    else { return 0 }
    return Int(dead)
  }

  package func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) { presence.add(handler) }

  private func entryKey(_ device: DeviceAddress) -> String {
    "\(prefix)device:\(RedisSlot.tag(of: device.account.e164.utf8))\(Self.hashed(PresenceWord.text(of: device)))"
  }

  private var processChannels: String { prefix + Self.processChannel }
  /// For scripts: empty where they cannot say anything there.
  private var scriptChannels: String { commands.scriptsReachListeners ? processChannels : "" }

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
    let key = addressKey(address)
    _ = await commands.call(RedisCommand("SET", key, process, "PX", Self.entryMillis), key: key)
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
    let (key, word) = (addressKey(address), PresenceWord.handOver(bytes, to: address))
    guard commands.scriptsReachListeners else {
      guard case .bytes(let holder) = await commands.call(RedisCommand("GET", key), key: key) else { return false }
      return await tell(String(decoding: holder, as: UTF8.self), word) ?? 0 > 0
    }
    let reply = await commands.run(HandOverScript.script, keys: [key], [processChannels, word])
    guard case .integer(let listeners) = reply else { return false }
    return listeners > 0
  }

  private func addressKey(_ address: ProvisioningAddress) -> String {
    "\(prefix)address:\(Self.hashed(address.text))"
  }
}
