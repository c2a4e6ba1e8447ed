// Device notifications within the test's process: both kinds of store, the real listener, pushers and lanes, in front
// of fakes of the providers, by a clock that stands still until it is moved.

import AsyncHTTPClient
import DeviceNotifications
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import Push
import Relay
import RelayCore
import RelayHTTP
import ServiceLifecycle
import Storage
import Synchronization
import TestSupport
import Testing

enum Backend: String, CaseIterable, Sendable { case embedded, postgres }

final class ManualClock: Sendable {
  private let millis: Mutex<Int64>
  init(_ start: Timestamp) { millis = Mutex(start.millis) }
  var now: Timestamp { Timestamp(millis: millis.withLock { $0 }) }
  var wall: WallClock { WallClock { self.now } }
  func set(_ time: Timestamp) { millis.withLock { $0 = time.millis } }
  func advance(_ duration: Duration) { set(now.adding(duration)) }
}

extension Logger {
  static var silent: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

struct NotificationSite: Sendable {
  let store: any Storage
  let rows: StoredRows
  let clock: ManualClock
  let apple: FakeAPNs
  let google: FakeFCM
  let files: PushFiles
  let port: Int
  let drain: DrainState

  static let password = "s3cret"
  /// 2024-05-01 09:59 UTC.
  static let start = Timestamp(millis: 1_714_557_540_000)
  private static let wall = WallClock { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }
  /// No attempt ends by the time that a slow machine takes.
  static let patience = Duration.seconds(200)

  /// Runs `body` with the accounts `acme` and `beta`; the first recipients have the numbers 2000001 and 2000002, and
  /// the first message number is 12550.
  /// - Parameter providers: those whose keys the process has.
  static func with(
    _ backend: Backend = .embedded, limits: [LimiterName: Bucket] = [:],
    providers: [NotificationService] = NotificationService.allCases,
    isolation: isolated (any Actor)? = #isolation, _ body: (NotificationSite) async throws -> Void
  ) async throws {
    try await MachineRoom.withDesk {
      switch backend {
      case .embedded:
        let folder = NSTemporaryDirectory() + "relay-notifications-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        // A leftover there hurts nobody.
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let clock = ManualClock(start)
        let store = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
        try await run(store, .embedded(path: folder + "/relay.sqlite"), clock, limits, providers, body)
      case .postgres:
        let server = try await Loopback.blocking { try PostgresServer.shared() }
        let url = try await Loopback.blocking { try server.createDatabase() }
        let store = try PostgresStorage(url: url, logger: .silent)
        try await run(store, .postgres(server, url: url), ManualClock(start), limits, providers, body)
      }
    }
  }

  private static func run(
    _ store: any Storage, _ rows: StoredRows, _ clock: ManualClock, _ limits: [LimiterName: Bucket],
    _ providers: [NotificationService],
    isolation: isolated (any Actor)? = #isolation, _ body: (NotificationSite) async throws -> Void
  ) async throws {
    let outcome: Result<Void, any Error>
    do {
      // A machine that starts many tests takes longer to connect than a call waits.
      try await eventually("the store answers") { (try? await store.ping()) != nil }
      try await store.migrate { _ in }
      try await prepare(store, clock)
      outcome = .success(try await serve(store, rows, clock, limits, providers, body))
    } catch {
      outcome = .failure(error)
    }
    await store.close()
    try outcome.get()
  }

  private static func prepare(_ store: any Storage, _ clock: ManualClock) async throws {
    try await store.raiseMessageNumber(to: 12_549)
    for name in ["acme", "beta"] {
      let account = NotificationAccount(
        name: try #require(NotificationUser(name)), password: Passwords.hash(Secret(password)), created: clock.now)
      guard try await store.addNotificationAccount(account) else { throw TestFailure("no account") }
    }
  }

  private static func serve(
    _ store: any Storage, _ rows: StoredRows, _ clock: ManualClock, _ limits: [LimiterName: Bucket],
    _ providers: [NotificationService],
    isolation: isolated (any Actor)? = #isolation, _ body: (NotificationSite) async throws -> Void
  ) async throws {
    let files = try PushFiles()
    let apple = try await FakeAPNs(files, key: try files.makeAPNsKey())
    let google = try await FakeFCM(files, key: try files.makeServiceAccount())
    let lanes = try lanes(files, apple, google).filter { providers.contains($0.key) }
    let events = EventPusher(store: store, clock: clock.wall, logger: .silent, answerLimit: patience)
    let pushers = NotificationService.allCases.map { service in
      NotificationPusher(
        service, store: store, lanes: lanes, clock: clock.wall, logger: .silent, attemptMax: patience
      ) { events.wake() }
    }
    let first = Mutex<[Int64]>([2_000_001, 2_000_002])
    let passwords = ChosenPasswords()
    var parts = NotificationEdgeParts(
      store: store, limiter: LocalCoordination(buckets: limits, clock: clock.wall), clock: clock.wall,
      pushClock: clock.wall,
      isPassword: { (user, password, stored, address) async throws(Problem) in
        try await passwords.verify(password, of: user, from: address, against: stored)
      },
      newNumber: {
        let next = first.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        return next.map { RecipientNumber($0) } ?? NotificationEdgeParts.randomNumber()
      })
    parts.onPush = { for pusher in pushers { pusher.wake() } }
    parts.onEvent = { events.wake() }
    let (ports, found) = AsyncStream.makeStream(of: Int.self)
    let drain = DrainState()
    let listener = NotificationListener(
      NotificationListenerSettings(host: "127.0.0.1", port: 0, proxies: TrustedProxies([])), parts: parts, tls: nil,
      drain: drain, logger: .silent
    ) { found.yield($0) }
    let services: [any Service] =
      lanes.values.map { $0 as any Service } + pushers.map { $0 as any Service } + [
        events, listener,
      ]
    let group = ServiceGroup(configuration: .init(services: services, logger: .silent))
    let running = Task { try await group.run() }
    let port = try #require(await ports.first { _ in true })
    let site = NotificationSite(
      store: store, rows: rows, clock: clock, apple: apple, google: google, files: files, port: port, drain: drain)
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body(site))
    } catch {
      outcome = .failure(error)
    }
    await group.triggerGracefulShutdown()
    try await running.value
    try await apple.close()
    try await google.close()
    try outcome.get()
  }

  private static func lanes(
    _ files: PushFiles, _ apple: FakeAPNs, _ google: FakeFCM
  ) throws -> [NotificationService: PushLane] {
    let apns = try APNsProvider(
      APNsSettings(
        authentication: .token(
          keyFile: files.apnsKey, keyID: PushFiles.keyID, teamID: PushFiles.teamID, topic: PushFiles.topic),
        endpoint: apple.url, trust: files.trust),
      clock: wall, logger: .silent)
    let fcm = try FCMProvider(
      FCMSettings(
        serviceAccountFile: files.serviceAccount, endpoint: google.url, tokenEndpoint: google.tokenURL,
        trust: files.trust),
      clock: wall, logger: .silent)
    var limits = PushLaneLimits()
    limits.attemptTimeout = patience
    func lane(_ kind: PushLaneName.Provider, _ provider: any PushProvider) -> PushLane {
      PushLane(
        PushLaneName(kind, app: "test"), provider: provider, limits: limits, retries: .none, clock: wall,
        logger: .silent)
    }
    return [.apns: lane(.apns, apns), .fcm: lane(.fcm, fcm)]
  }
}

extension NotificationSite {
  /// Runs `body` beside the pushers of another process, which has the keys of all providers.
  func withOtherProcess(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Void
  ) async throws {
    let lanes = try Self.lanes(files, apple, google)
    let pushers = NotificationService.allCases.map { service in
      NotificationPusher(
        service, store: store, lanes: lanes, clock: clock.wall, logger: .silent, attemptMax: Self.patience
      ) {}
    }
    let services = lanes.values.map { $0 as any Service } + pushers.map { $0 as any Service }
    let group = ServiceGroup(configuration: .init(services: services, logger: .silent))
    let running = Task { try await group.run() }
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body())
    } catch {
      outcome = .failure(error)
    }
    await group.triggerGracefulShutdown()
    try await running.value
    try outcome.get()
  }
}

// MARK: Requests

struct Reply: Sendable, Equatable {
  let status: Int
  let text: String
  let headers: HTTPHeaders
}

extension NotificationSite {
  static func request(
    _ url: String, _ method: HTTPMethod = .GET, body: String? = nil, headers: HTTPHeaders = [:]
  ) async throws -> Reply {
    try await Self.request(url, method, bytes: body.map { Array($0.utf8) }, headers: headers)
  }

  static func request(
    _ url: String, _ method: HTTPMethod, bytes: [UInt8]?, headers: HTTPHeaders
  ) async throws -> Reply {
    var request = HTTPClientRequest(url: url)
    request.method = method
    request.headers = headers
    if let bytes { request.body = .bytes(ByteBuffer(bytes: bytes)) }
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(300))
    let answer = try await response.body.collect(upTo: 32 << 20)
    return Reply(status: Int(response.status.code), text: String(buffer: answer), headers: response.headers)
  }

  var base: String { "http://127.0.0.1:\(port)/external/notifications/" }

  /// GET with a query string.
  func get(_ call: String, headers: HTTPHeaders = [:]) async throws -> Reply {
    try await Self.request(base + call, headers: headers)
  }

  /// POST with a form.
  func post(_ method: String, _ form: String, headers: HTTPHeaders = [:]) async throws -> Reply {
    var headers = headers
    headers.replaceOrAdd(name: "content-type", value: "application/x-www-form-urlencoded")
    return try await Self.request(base + method, .POST, body: form, headers: headers)
  }

  func soap(_ envelope: String) async throws -> Reply { try await soap(Array(envelope.utf8)) }

  func soap(_ envelope: [UInt8]) async throws -> Reply {
    try await Self.request(
      "http://127.0.0.1:\(port)/external/ws/notifications", .POST, bytes: envelope,
      headers: ["content-type": "text/xml; charset=utf-8", "soapaction": "\"\""])
  }

  /// A new recipient of `acme`, with its number as text.
  func subscribe(key: String, provider: String = "fcm", message: String = "") async throws -> String {
    let reply = try await post("subscribe", "user=acme&spid=\(provider)&key=\(key)&message=\(message)")
    let lines = reply.text.split(separator: "\n")
    guard lines.count == 2, lines[0] == "A" else { throw TestFailure("subscribe: \(reply.text)") }
    return String(lines[1])
  }

  /// - Returns: the message number.
  @discardableResult
  func send(_ text: String = "Hello", to recipients: String, options: String = "") async throws -> String {
    let reply = try await post(
      "send", "user=acme&pwd=\(Self.password)&message=\(text)&recipients=\(recipients)\(options)")
    let lines = reply.text.split(separator: "\n")
    guard lines.count == 2, lines[0] == "A" else { throw TestFailure("send: \(reply.text)") }
    return String(lines[1])
  }

  func events(after: Int = 0) async throws -> [String] {
    let reply = try await get("received?user=acme&pwd=\(Self.password)&lastMsgId=\(after)&clean=true")
    return reply.text.split(separator: "\n").dropFirst().map(String.init)
  }

  var acme: NotificationUser { get throws { try #require(NotificationUser("acme")) } }

  func setEventURL(_ url: String, _ method: EventTarget.Method = .post) async throws {
    var change = NotificationAccountChange()
    change.eventTarget = .set(EventTarget(url: url, method: method))
    guard try await store.changeNotificationAccount(try acme, change, now: clock.now) else {
      throw TestFailure("no account")
    }
  }
}
