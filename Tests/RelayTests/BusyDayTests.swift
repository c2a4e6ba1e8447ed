import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import RelayCore
import RelayHTTP
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// The default limits of prekeys against a day of people, and against those who drain (docs/security.md, "A client").
@Suite(.tags(.stores)) struct BusyDayTests {
  /// Starts sessions, ends them, installs anew and writes to a group, each several times within minutes, as the
  /// examined clients draw keys for it (reference 1.6, 1.8, 4.1).
  @Test func `a day of an account with five devices passes at a person's pace`() async throws {
    try await KeyDesk.with { desk in
      let own = try await desk.install(1, devices: 5)
      let friend = try await desk.install(2, devices: 3)
      let group = try await desk.install(numbers: 10..<70)
      for _ in ["morning", "noon", "evening"] {
        // Each device starts a session with the friend, sends to its own others, and ends and starts it twice more.
        for _ in 0..<3 {
          for device in own { try await desk.startSession(device, with: friend[0].account) }
          for device in own { try await desk.draw(device, of: own[0].account, .all) }
          desk.clock.advance(.seconds(60))
        }
        // The friend installs anew three times. Each device hears 410, and then 409 for the devices linked again.
        for _ in 0..<3 {
          _ = try await desk.install(2, devices: 3)
          for device in own {
            for id in friend.map(\.device) { try await desk.draw(device, of: friend[0].account, .one(id)) }
            desk.clock.advance(.seconds(5))
          }
          desk.clock.advance(.seconds(60))
        }
        // It installs itself anew twice: sessions with everybody it writes to begin again, those of the group too.
        for _ in 0..<2 {
          _ = try await desk.install(1, devices: 5)
          for device in own {
            try await desk.startSession(device, with: friend[0].account)
            for member in group { try await desk.startSession(device, with: member.account) }
            desk.clock.advance(.seconds(60))
          }
        }
        desk.clock.advance(.seconds(4 * 3600))
      }
    }
  }

  /// However many accounts draw, and whatever selectors they name.
  @Test func `draining is bounded by the device's own bucket alone`() async throws {
    try await KeyDesk.with { desk in
      let victim = try await desk.install(1, devices: 1)[0]
      let drainers = try await desk.install(numbers: 10..<16)
      let target = LimiterName.preKeysTarget.defaultBucket
      var refused = 0
      // As often as the clock lets them, for half an hour.
      for _ in 0..<30 {
        for drainer in drainers {
          for selector in [DeviceSelector.all, .one(.master)] {
            for _ in 0..<4 {
              if try await desk.status(drainer, of: victim.account, selector) == 413 { refused += 1 }
            }
          }
        }
        desk.clock.advance(.seconds(60))
      }
      let drawn = KeyDesk.supply - (try await desk.storage.preKeyCount(of: victim))
      #expect(drawn <= Int(target.size + 30 * target.perMinute), "\(drawn) keys")
      #expect(refused > 0, "one account is limited too")
    }
  }

  /// Keys come back to one account more slowly than to the device: it cannot hold the supply down for good.
  @Test func `one account leaves some of what comes back to others`() {
    let (own, target) = (LimiterName.preKeys.defaultBucket, LimiterName.preKeysTarget.defaultBucket)
    #expect(2 * own.perMinute < target.perMinute, "by `*`, and by the device's number")
  }
}

/// Prekeys as clients draw them, under the default limits and a clock that stands still until it is moved.
private struct KeyDesk {
  static let supply = 100

  let storage: SQLiteStorage
  let clock: DeskClock
  private let accounts: AccountCache
  private let responder: any HTTPResponder<ClientContext>

  static func with(_ body: (KeyDesk) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "busy-day-" + UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }  // A leftover in the temporary folder hurts nobody.
    let clock = DeskClock()
    let storage = try SQLiteStorage(path: folder.appending(path: "relay.sqlite").path, clock: clock.wall)
    try await storage.migrate { _ in }
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(KeyDesk(storage, clock)))
    } catch {
      result = .failure(error)
    }
    await storage.close()
    try result.get()
  }

  private init(_ storage: SQLiteStorage, _ clock: DeskClock) {
    (self.storage, self.clock) = (storage, clock)
    let logger = Logger(label: "test")
    let coordination = LocalCoordination(clock: clock.wall)
    accounts = AccountCache(store: storage, bus: coordination)
    let restores = RestoreGuard(store: storage, redis: nil, peers: nil, clock: clock.wall, logger: logger)
    let local = LocalPreKeys(store: storage, accounts: accounts, restores: restores, clock: clock.wall)
    let purse = ContactPurse(
      budget: coordination, allowance: LookUpAllowance(first: 20_000, firstDays: 10, perDay: 2000))
    let keys = KeysController(
      store: storage, accounts: accounts, local: local, courier: NoCourier(), homes: NoCourier(),
      limiter: coordination,
      gate: CorrespondenceGate(purse: purse), verifiesSignatures: false)
    let router = Router(context: ClientContext.self)
    router.add(middleware: ProblemMiddleware(edge: "client"))
    keys.addRoutes(to: router.group(context: DeviceContext.self))
    responder = router.buildResponder()
  }

  /// Registers the account anew and links its other devices, each with a full supply. - Returns: them all.
  @discardableResult
  func install(_ index: Int, devices count: Int) async throws -> [DeviceAddress] {
    let number = try #require(AccountNumber(e164: "+49151\(10_000_000 + index)"))
    let outcome = try await storage.register(
      Registration(
        number: number, token: ContactTokens.token(of: number), device: device(.master), supportsSMS: false,
        voice: false),
      proof: .trusted, now: clock.now)
    #expect(outcome == .registered)
    var addresses = [DeviceAddress(number, .master)]
    try await upload(addresses[0])
    for _ in 1..<max(1, count) {
      let code = Secret("123456")
      try await storage.setVerificationCode(
        VerificationCode(code: code, expires: clock.now.adding(.seconds(60))), for: number, purpose: .linking)
      let link = DeviceLink(account: number, device: device(.master), devicesMax: 6)
      guard case .linked(let id) = try await storage.linkDevice(link, code: code, triesMax: 5, now: clock.now) else {
        throw TestFailure("not linked")
      }
      addresses.append(DeviceAddress(number, id))
      try await upload(DeviceAddress(number, id))
    }
    await accounts.changed(number)
    return addresses
  }

  /// Accounts of one device. - Returns: the devices.
  func install(numbers: Range<Int>) async throws -> [DeviceAddress] {
    var all: [DeviceAddress] = []
    for index in numbers { all += try await install(index, devices: 1) }
    return all
  }

  /// Draws for all devices, and once more for the first: the message met a device that was new.
  func startSession(_ device: DeviceAddress, with number: AccountNumber) async throws {
    try await draw(device, of: number, .all)
    try await draw(device, of: number, .one(.master))
  }

  func draw(_ device: DeviceAddress, of number: AccountNumber, _ selector: DeviceSelector) async throws {
    #expect(try await status(device, of: number, selector) == 200)
  }

  func status(_ device: DeviceAddress, of number: AccountNumber, _ selector: DeviceSelector) async throws -> Int {
    let account = try #require(try await storage.account(device.account))
    let request = Request(
      head: HTTPRequest(
        method: .get, scheme: nil, authority: nil, path: "/v2/keys/\(number.e164)/\(selector.text)"),
      body: RequestBody(buffer: ByteBuffer()))
    let context = ClientContext(
      caller: Caller(address: device, account: account) { true },
      origin: RequestOrigin(address: nil, isSecure: true), logger: Logger(label: "test"))
    return try await responder.respond(to: request, context: context).status.code
  }

  private func upload(_ device: DeviceAddress) async throws {
    let key = { (id: Int64) in PreKey(keyID: id, publicKey: "key \(id)") }
    let upload = PreKeyUpload(
      identityKey: "identity", oneTimeKeys: (1...Int64(Self.supply)).map(key), lastResort: key(0xFFFFFF),
      signedPreKey: SignedPreKey(keyID: 1, publicKey: "signed", signature: "signature"))
    #expect(try await storage.replacePreKeys(of: device, with: upload) == .stored)
  }

  private func device(_ id: DeviceID) -> Device {
    Device(
      id: id, password: PasswordHash(salt: [UInt8](repeating: 1, count: 16), hash: [UInt8](repeating: 2, count: 32)),
      signalingKey: Secret("c2ln"), registrationID: 7, fetchesMessages: true, lastSeen: clock.now.startOfDay,
      created: clock.now)
  }
}

/// Stands still until it is moved.
private final class DeskClock: Sendable {
  private let millis = Mutex<Int64>(1_700_000_000_000)
  var now: Timestamp { Timestamp(millis: millis.withLock { $0 }) }
  var wall: WallClock { WallClock { self.now } }
  func advance(_ duration: Duration) { millis.withLock { $0 = Timestamp(millis: $0).adding(duration).millis } }
}

private struct NoCourier: Courier, HomeFinder {
  func home(of number: AccountNumber) async throws(Problem) -> RelayName? { nil }
  func home(of attachment: AttachmentID) -> RelayName? { nil }
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] { throw Problem(.notFound) }
  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) { throw Problem(.notFound) }
  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    throw Problem(.notFound)
  }
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    throw Problem(.notFound)
  }
}
