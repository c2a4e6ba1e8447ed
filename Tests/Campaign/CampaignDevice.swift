import CampaignModel
import RelayClient
import Synchronization
import TestSupport

/// A number with its devices.
final class CampaignAccount: Sendable {
  let number: PhoneNumber
  let site: Int
  let identity: IdentityKeys
  private let members = Mutex<[CampaignDevice]>([])

  init(_ number: PhoneNumber, at site: Int) throws {
    self.number = number
    self.site = site
    identity = try IdentityKeys()
  }

  /// Ascending by id; the first is device 1.
  var devices: [CampaignDevice] { members.withLock { $0 } }
  func add(_ device: CampaignDevice) { members.withLock { $0.append(device) } }
  func remove(_ device: CampaignDevice) { members.withLock { $0.removeAll { $0.index == device.index } } }
}

/// A device that stays connected as clients do, and writes down what it sees.
final class CampaignDevice: Sendable {
  let index: DeviceIndex
  let account: CampaignAccount
  let credentials: Credentials
  let registrationID: Int
  private let key: SignalingKey
  let world: CampaignWorld
  private let habit: Habit
  private let state = Mutex(State())

  private struct State {
    var isRemoved = false
    /// By the connection that it has.
    var socket: (client: RelayClient, place: Place)?
    var lastDelivery = ContinuousClock.now
    /// The messages that were refused, and the number of refusals.
    var refused: Set<MessageNumber> = []
    var refusals = 0
  }

  /// How it treats its connection and what comes.
  enum Habit: CaseIterable, Sendable {
    case steady
    /// Refuses the first messages that it ever gets: they come again on its next connection.
    case refuses
    /// Connects anew, somewhere else, while the connection that it has still stands.
    case moves
    /// Closes its connection and comes back.
    case reconnects
    /// Is connected only after a push, for as long as something comes.
    case sleeps
  }

  /// How long it keeps a connection.
  private enum Stay {
    case toTheEnd
    case time(Duration)
    /// Until nothing has come for so long.
    case idle(Duration)
  }

  init(
    _ index: DeviceIndex, of account: CampaignAccount, _ credentials: Credentials, _ attributes: DeviceAttributes,
    _ world: CampaignWorld
  ) throws {
    self.index = index
    self.account = account
    self.credentials = credentials
    self.world = world
    registrationID = attributes.registrationID
    key = try SignalingKey(attributes.signalingKey)
    // Most are steady. In an account only device 1 sleeps.
    let others: [Int32: Habit] = [6: .refuses, 7: .moves, 8: credentials.device.deviceID == 1 ? .sleeps : .steady]
    habit = others[index.rawValue % 10] ?? (index.rawValue % 20 == 9 ? .reconnects : .steady)
  }

  var id: Int { credentials.device.deviceID }
  var sleeps: Bool { habit == .sleeps }
  private var site: String { world.sites[account.site].name }

  // MARK: - Keys

  /// Uploads fresh one-time keys, a signed one and a last resort.
  /// - Returns: whether the relay has answered that it has them.
  func uploadKeys(_ count: Int, _ random: inout SeededGenerator) async throws -> Bool {
    var oneTime: [PublicPreKey] = []
    for number in world.newKeyNumbers(count) {
      // Ids of the protocol have 24 bits, the last of which is the last resort's.
      oneTime.append(PublicPreKey(keyID: Int64(number % 0xFF_FFFE + 1), publicKey: try IdentityKeys().publicKey))
    }
    let last = PublicPreKey(keyID: DeviceKeys.lastResortID, publicKey: try IdentityKeys().publicKey)
    let signed = try IdentityKeys().publicKey
    let bundle = SignedPreKeyBundle(
      identityKey: account.identity.publicKey, oneTimeKeys: oneTime, lastResort: last,
      signed: SignedPublicPreKey(
        keyID: 1, publicKey: signed, signature: try account.identity.signature(of: signed)))
    let (entrance, place) = world.entrance(of: account.site, &random)
    let call = Call.upload(keys: oneTime.map(Self.digest), lastResort: Self.digest(last))
    let outcome = await world.perform(call, by: index, to: place) { () async throws(RelayClientError) in
      try await entrance.with(credentials).upload(bundle)
    }
    if case .done = outcome { return true }
    return false
  }

  static func digest(_ key: PublicPreKey) -> KeyDigest { KeyDigest(shortDigest(key.publicKey.utf8)) }

  // MARK: - Live

  /// Stays connected until the task is cancelled or the device is removed.
  func live(_ random: SeededGenerator) async {
    if sleeps { await wakeAndSleep(random) } else { await stayConnected(random) }
    world.history.saw(.away(index))
  }

  /// Requests over the connection that it has; nil while it has none.
  var socket: (client: RelayClient, place: Place)? { state.withLock { $0.socket } }

  /// Is connected after a push, until it has what waits.
  private func wakeAndSleep(_ random: SeededGenerator) async {
    var random = random
    world.history.saw(.away(index))
    for await _ in world.pushes(for: index) {
      while !Task.isCancelled, !isRemoved {
        let way = world.entrance(of: account.site, &random)
        if await connect(by: way.0, way.1, staying: .idle(.seconds(2)), random.split()) { break }
        do { try await Task.sleep(for: .milliseconds(Int.random(in: 100...2000, using: &random))) } catch { break }
      }
      world.history.saw(.away(index))
    }
  }

  private func stayConnected(_ random: SeededGenerator) async {
    var random = random
    let idle = Duration.seconds(Double.random(in: world.idleSeconds, using: &random))
    await withTaskGroup(of: Void.self) { group in
      var failures = 0
      while !Task.isCancelled, !isRemoved {
        let ended = Flag()
        let way = world.entrance(of: account.site, &random)
        let draws = random.split()
        if habit == .moves {
          group.addTask {
            _ = await self.connect(by: way.0, way.1, staying: .toTheEnd, draws)
            ended.set()
          }
          // Until the connection has ended, or it is time to move on.
          let until = ContinuousClock.now + idle
          while !ended.isSet, ContinuousClock.now < until, !Task.isCancelled {
            do { try await Task.sleep(for: .milliseconds(100)) } catch { break }
          }
          failures = ended.isSet ? failures + 1 : 0
        } else {
          let stood = await connect(by: way.0, way.1, staying: habit == .reconnects ? .time(idle) : .toTheEnd, draws)
          failures = stood ? 0 : failures + 1
        }
        // Clients come back at different times, later after each failure.
        let pause = min(4000, 200 << min(failures, 5))
        do { try await Task.sleep(for: .milliseconds(Int.random(in: 50...pause, using: &random))) } catch { break }
      }
      group.cancelAll()
    }
  }

  private var isRemoved: Bool { state.withLock { $0.isRemoved } }
  /// It does not connect any more.
  func retire() { state.withLock { $0.isRemoved = true } }

  /// One connection. - Returns: whether it stood.
  private func connect(by entrance: RelayClient, _ place: Place, staying stay: Stay, _ random: SeededGenerator) async
    -> Bool
  {
    let number = world.history.nextConnection()
    var options = RelayClient.LiveOptions()
    // So that it notices soon that nothing comes any more: after four times as long.
    options.keepAlive = .seconds(3)
    let outcome = await world.perform(.connect(number), by: index, to: place) { () async throws(RelayClientError) in
      try await entrance.with(credentials).connect(signalingKey: key, options: options)
    }
    guard case .done(let live) = outcome else { return false }
    state.withLock {
      ($0.socket, $0.lastDelivery) = ((live.client, Place(place.site, place.process, isLive: true)), .now)
    }
    let timer = Task {
      switch stay {
      case .toTheEnd: return
      case .time(let time): try await Task.sleep(for: time)
      case .idle(let time):
        while state.withLock({ ContinuousClock.now - $0.lastDelivery < time }) {
          try await Task.sleep(for: .milliseconds(200))
        }
      }
      await live.close()
    }
    defer {
      timer.cancel()
      state.withLock { $0.socket = nil }
    }
    var code: Int?
    do {
      for try await delivery in live.deliveries { try await take(delivery, over: number) }
      await live.close()
    } catch let end as ConnectionEnd {
      code = end.code
      if case .broken(let reason) = end { world.history.saw(.odd("\(index): the relay broke the protocol: \(reason)")) }
      if let code, !Self.foreseenCodes.contains(code), !(code == Self.refusedCode && isRemoved) {
        world.history.saw(.odd("\(index): \(place) closed with \(code)"))
      }
    } catch {
      world.history.saw(.odd("\(index): a delivery does not open: \(error)"))
    }
    world.history.saw(.ended(number, of: index, code: code))
    return true
  }

  /// Displaced, the relay failed, the process stops.
  private static let foreseenCodes: Set<Int> = [1000, 1001, 1005, 1006, 1011, 1012]
  private static let refusedCode = 1008

  private func take(_ delivery: Delivery, over number: ConnectionNumber) async throws {
    state.withLock { $0.lastDelivery = .now }
    let message = try delivery.message
    guard let name = Self.name(of: message) else {
      world.history.saw(.odd("\(index) got a message of type \(message.type) that nobody sent"))
      return try await delivery.acknowledge()
    }
    let source = world.index(of: message.source, in: name)
    if message.type >= Self.receipt {
      tell(message, name)
      return try await delivery.acknowledge()
    }
    world.history.saw(
      .delivered(name, from: source, to: index, digest: shortDigest(message.body), over: number))
    world.settled(Copy(name, index))
    if wouldRefuse(name) { return try await delivery.refuse() }
    if index.rawValue % 10 == 3, world.isSlow(site) { try await Task.sleep(for: Self.slowness) }
    world.history.saw(.acknowledging(name, by: index))
    try await delivery.acknowledge()
  }

  private func wouldRefuse(_ message: MessageNumber) -> Bool {
    state.withLock { state in
      // A message that comes again is taken.
      if state.refused.remove(message) != nil { return false }
      guard habit == .refuses, state.refusals < Self.refusalsMax else { return false }
      state.refusals += 1
      state.refused.insert(message)
      return true
    }
  }

  private static let refusalsMax = 3
  private static let slowness = Duration.milliseconds(100)

  /// The type of the word that a message was acknowledged (reference 2.8); above it, that it is undeliverable.
  static let receipt = 5
  private static let firstTime: Int64 = 1_700_000_000_000

  /// The sender's time by which clients tell a message.
  static func time(of message: MessageNumber) -> Int64 { firstTime + Int64(message.rawValue) }
  static func name(of message: IncomingMessage) -> MessageNumber? {
    message.timestamp > firstTime ? MessageNumber(Int(message.timestamp - firstTime)) : nil
  }
}

/// Set once.
final class Flag: Sendable {
  private let state = Atomic(false)
  func set() { state.store(true, ordering: .releasing) }
  var isSet: Bool { state.load(ordering: .acquiring) }
}
