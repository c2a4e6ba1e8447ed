// Blob routes of one folder behind a real port, on an embedded store, with a clock that the test sets.

import AsyncHTTPClient
import Attachments
import Foundation
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import RelayCore
import RelayHTTP
import ServiceLifecycle
import Storage
import Synchronization
import TestSupport
import Testing

struct BlobSite: Sendable {
  /// The folder of this site's files.
  let folder: String
  let store: SQLiteStorage
  let blobs: FolderStore
  let policy: AttachmentPolicy
  let clock: SettableClock
  let port: Int
  var url: String { "http://127.0.0.1:\(port)" }

  static let account = AccountNumber(e164: "+15550001111")!  // A valid number.
  static let megabyte = AttachmentPolicy(
    bytesMax: 1 << 20, retention: .seconds(86_400), quota: AttachmentQuota(bytesMax: 10 << 20))

  /// - Parameters:
  ///   - wrap: what the blob routes have for a store.
  ///   - routes: adds further ones.
  static func with(
    _ policy: AttachmentPolicy = Self.megabyte, uploadPace: TransferPace = .upload,
    downloadPace: TransferPace = .download, downloads: DownloadBounds = DownloadBounds(),
    uploadsTo wrap: (SQLiteStorage) -> any AttachmentStore = { $0 },
    routes: @escaping @Sendable (Router<ClientContext>, SQLiteStorage, FolderStore, SettableClock) -> Void = {
      _, _, _, _ in
    },
    isolation: isolated (any Actor)? = #isolation, _ body: (BlobSite) async throws -> Void
  ) async throws {
    try await withTemporaryFolder { folder in
      let clock = SettableClock()
      let store = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
      try await store.migrate { _ in }
      let blobs = try FolderStore(
        folder: folder + "/attachments", signer: try await BlobURLSigner(store: store))
      let router = Router(context: ClientContext.self)
      router.add(middleware: ProblemMiddleware(edge: "client"))
      BlobController(
        folder: blobs, store: wrap(store), policy: policy, uploadPace: uploadPace, downloadPace: downloadPace,
        downloads: downloads, clock: JudgedClock(unjudged: clock.wall), logger: .silent
      ).addBlobRoutes(to: router)
      routes(router, store, blobs, clock)
      let (ports, port) = AsyncStream.makeStream(of: Int.self)
      let application = Application(
        router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
        onServerRunning: { port.yield($0.localAddress?.port ?? 0) }, logger: .silent)
      let group = ServiceGroup(configuration: .init(services: [application], logger: .silent))
      let running = Task { try await group.run() }
      let bound = try #require(await ports.first { _ in true })
      let outcome: Result<Void, any Error>
      do {
        outcome = .success(
          try await body(
            BlobSite(folder: folder, store: store, blobs: blobs, policy: policy, clock: clock, port: bound)))
      } catch {
        outcome = .failure(error)
      }
      await group.triggerGracefulShutdown()
      try await running.value
      await store.close()
      try outcome.get()
    }
  }

  // MARK: What a client does

  /// A new attachment that waits for its blob.
  func allocate(for account: AccountNumber = Self.account) async throws -> AttachmentID {
    let id = try #require(AttachmentID(Int64.random(in: 1...Int64.max)))
    let attachment = Attachment(
      id: id, account: account, bytes: nil, expires: clock.now.adding(BlobTimes.pendingLife))
    #expect(try await store.addAttachment(attachment, quota: policy.quota))
    return id
  }

  func uploadURL(_ id: AttachmentID) -> String { blobs.url(for: .upload, of: id, base: url, now: clock.now) }
  func downloadURL(_ id: AttachmentID) -> String { blobs.url(for: .download, of: id, base: url, now: clock.now) }

  @discardableResult
  func upload(_ bytes: [UInt8], to id: AttachmentID) async throws -> Exchange {
    try await Exchange.put(bytes, to: uploadURL(id))
  }

  func download(_ id: AttachmentID) async throws -> Exchange { try await Exchange.get(downloadURL(id)) }

  // MARK: What an operator sees

  /// Uploads under way, and what is left of them.
  var incoming: [String] {
    get throws { try FileManager.default.contentsOfDirectory(atPath: folder + "/attachments/incoming") }
  }

  /// The file of a blob.
  func file(of id: AttachmentID) -> String {
    let byte = UInt8(id.value & 0xFF)
    return "\(folder)/attachments/blobs/\(byte < 16 ? "0" : "")\(String(byte, radix: 16))/\(id.text)"
  }

  func hasBlob(_ id: AttachmentID) -> Bool { FileManager.default.fileExists(atPath: file(of: id)) }
}

/// One request and its whole answer.
struct Exchange: Sendable {
  let status: Int
  let headers: HTTPHeaders
  let body: [UInt8]
  var text: String { String(decoding: body, as: UTF8.self) }
  /// The code of a refusal.
  var code: Substring { text.prefix { $0 != ":" } }

  static let octets = "application/octet-stream"

  static func put(_ bytes: [UInt8], to url: String, type: String? = octets) async throws -> Exchange {
    var request = HTTPClientRequest(url: url)
    request.method = .PUT
    if let type { request.headers.add(name: "Content-Type", value: type) }
    request.body = .bytes(bytes)
    return try await send(request)
  }

  static func get(_ url: String, type: String? = nil) async throws -> Exchange {
    var request = HTTPClientRequest(url: url)
    if let type { request.headers.add(name: "Content-Type", value: type) }
    return try await send(request)
  }

  static func send(_ request: HTTPClientRequest) async throws -> Exchange {
    // Tens of megabytes on a machine that runs everything at once.
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(300))
    let body = try await response.body.collect(upTo: 64 << 20)
    return Exchange(
      status: Int(response.status.code), headers: response.headers, body: Array(body.readableBytesView))
  }
}

/// The time that a test wants.
final class SettableClock: Sendable {
  private let time: Mutex<Timestamp>
  init(_ time: Timestamp = Timestamp(millis: 1_800_000_000_000)) { self.time = Mutex(time) }
  /// Starts at the real time.
  static func current() -> SettableClock {
    SettableClock(Timestamp(millis: Int64(Date.now.timeIntervalSince1970 * 1000)))
  }
  var now: Timestamp { time.withLock { $0 } }
  var wall: WallClock { WallClock { self.now } }
  func advance(by duration: Duration) { time.withLock { $0 = $0.adding(duration) } }
}

extension Logger {
  static var silent: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// A folder that is gone afterwards.
func withTemporaryFolder<Value>(
  isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Value
) async throws -> Value {
  try await MachineRoom.withDesk { try await withFolder(body) }
}

private func withFolder<Value>(
  isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Value
) async throws -> Value {
  let folder = FileManager.default.temporaryDirectory.appending(path: "relay-blobs-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  // A leftover in the temporary folder must not hide why the test failed.
  defer { try? FileManager.default.removeItem(at: folder) }
  return try await body(folder.path)
}

func randomBytes(_ count: Int) -> [UInt8] {
  var generator = SystemRandomNumberGenerator()
  return (0..<count).map { _ in generator.next() }
}
