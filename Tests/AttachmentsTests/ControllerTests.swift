import Attachments
import Foundation
import Hummingbird
import NIOHTTP1
import RelayCore
import RelayHTTP
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

/// The answers to devices about attachments (reference 1.10).
@Suite(.tags(.stores)) struct ControllerTests {
  @Test func `a new attachment has a random id, twice, and a URL that takes its blob`() async throws {
    try await Self.with { site, _ in
      var ids = Set<Int64>()
      for path in ["/v1/attachments", "/v1/attachments/"] {
        let answer = try await Exchange.get(site.url + path)
        #expect(answer.status == 200)
        let told = try Told(answer)
        let id = try #require(told.id)
        #expect(id > 0 && told.idString == String(id) && ids.insert(id).inserted)
        #expect(answer.headers.first(name: "Content-Location") == told.location)
        #expect(told.location.hasPrefix(site.url + "/v1/attachments/blobs/\(id)?"))
        let bytes = randomBytes(1000)
        #expect(try await Exchange.put(bytes, to: told.location).status == 200)
        for query in ["", "?relay=", "/"] {
          let found = try await Exchange.get(site.url + "/v1/attachments/\(id)\(query)")
          let location = try Told(found).location
          #expect(found.status == 200 && found.headers.first(name: "Content-Location") == location)
          #expect(try await Exchange.get(location).body == bytes)
        }
      }
    }
  }

  @Test func `an unknown id has a URL that leads nowhere, and what is no id has none`() async throws {
    try await Self.with { site, _ in
      let answer = try await Exchange.get(site.url + "/v1/attachments/4611686018427387905")
      #expect(answer.status == 200)
      #expect(try await Exchange.get(try Told(answer).location).status == 404)
      for text in ["abc", "0", "-1", "+1", "1.0", "9223372036854775808", "blobs", "%00"] {
        #expect(try await Exchange.get(site.url + "/v1/attachments/\(text)").status == 404, "\(text)")
      }
      #expect(try await Exchange.put([1], to: site.url + "/v1/attachments").status == 405)
      #expect(try await Exchange.put([1], to: site.url + "/v1/attachments/1").status == 405)
    }
  }

  @Test func `another relay's attachment is found there`() async throws {
    try await Self.with { site, courier in
      let found = try await Exchange.get(site.url + "/v1/attachments/77?relay=beta")
      #expect(found.status == 200)
      #expect(try Told(found).location == "https://beta.example/77")
      #expect(courier.asked == ["77 at beta"])
      for name in ["gamma", "No%20Name", "%FF"] {
        #expect(try await Exchange.get(site.url + "/v1/attachments/77?relay=\(name)").status == 404, "\(name)")
      }
    }
  }

  @Test func `an attachment with a peer's mark is found at the peer, and a known one here`() async throws {
    try await Self.with { site, courier in
      let marked = AttachmentID(OneRelayCourier.betaMark, random: .max)
      let found = try await Exchange.get(site.url + "/v1/attachments/\(marked.text)")
      #expect(try Told(found).location == "https://beta.example/\(marked.text)")
      #expect(courier.asked == ["\(marked.text) at beta"])
      // An id of an earlier release that looks as if it were the peer's.
      let old = AttachmentID(OneRelayCourier.betaMark, random: 77)
      let kept = Attachment(
        id: old, account: BlobSite.account, bytes: nil, expires: site.clock.wall.now().adding(.seconds(60)))
      #expect(try await site.store.addAttachment(kept, quota: AttachmentQuota(bytesMax: 1 << 20)))
      let here = try await Exchange.get(site.url + "/v1/attachments/\(old.text)")
      #expect(try Told(here).location.hasPrefix(site.url + "/v1/attachments/blobs/\(old.text)?"))
      #expect(courier.asked.count == 1)
      // A new one bears the mark of this relay, with 47 bits that nobody can guess.
      let one = try #require(try Told(try await Exchange.get(site.url + "/v1/attachments")).id)
      #expect(AttachmentID(one)?.mark == OneRelayCourier.ownMark)
      // A place that a peer gives counts as one that was asked for by name.
      for _ in 0..<60 { _ = try await Exchange.get(site.url + "/v1/attachments/\(marked.text)") }
      #expect(try await Exchange.get(site.url + "/v1/attachments/\(marked.text)").code == "rate-limited")
    }
  }

  @Test func `asking too often, and holding too much, is refused`() async throws {
    // 4096 bytes an attachment at least: the tenth is one too many.
    try await Self.with(quota: 9 * 4096) { site, _ in
      for _ in 0..<9 { #expect(try await Exchange.get(site.url + "/v1/attachments").status == 200) }
      let full = try await Exchange.get(site.url + "/v1/attachments")
      #expect(full.status == 413 && full.code == "quota-exceeded")
      #expect(full.headers.first(name: "Retry-After") == "10800")
      for _ in 0..<40 { _ = try await Exchange.get(site.url + "/v1/attachments") }
      let limited = try await Exchange.get(site.url + "/v1/attachments")
      #expect(limited.status == 413 && limited.code == "rate-limited")
      #expect(limited.headers.first(name: "Retry-After") != nil)
      // Looking up what lies here is not limited (reference 1.10).
      #expect(try await Exchange.get(site.url + "/v1/attachments/1").status == 200)
    }
  }

  /// Each occupies one of the places that the peer has.
  @Test func `looking up at another relay is limited`() async throws {
    try await Self.with { site, courier in
      for _ in 0..<50 { _ = try await Exchange.get(site.url + "/v1/attachments/77?relay=beta") }
      let limited = try await Exchange.get(site.url + "/v1/attachments/77?relay=beta")
      #expect(limited.status == 413 && limited.code == "rate-limited")
      #expect(courier.asked.count == 50)
      #expect(try await Exchange.get(site.url + "/v1/attachments/77?relay=").status == 200)
    }
  }

  @Test func `URLs begin where the operator says, else where the client came`() async throws {
    let location = { (answer: Exchange) in try Told(answer).location }
    try await Self.with(base: BlobURLBase(configured: "https://blobs.example/x", fallback: "http://unused")) {
      site, _ in
      let asked = try location(try await Exchange.get(site.url + "/v1/attachments"))
      #expect(asked.hasPrefix("https://blobs.example/x/v1/attachments/blobs/"))
    }
    try await Self.with(isSecure: true) { site, _ in
      let connection = try RawConnection(to: site.port)
      try connection.send(
        "GET /v1/attachments HTTP/1.1\r\nHost: relay.example:8443\r\nConnection: close\r\n\r\n")
      #expect(try await connection.text().contains(#""location":"https://relay.example:8443/v1/attachments/blobs/"#))
      // A text that is no host does not get into a URL.
      let odd = try RawConnection(to: site.port)
      try odd.send("GET /v1/attachments HTTP/1.1\r\nHost: a/b?c\r\nConnection: close\r\n\r\n")
      #expect(try await odd.text().contains(#""location":"http://fallback.example/v1/attachments/blobs/"#))
    }
  }

  @Test func `peers are told a URL of their own`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      let bytes = randomBytes(10)
      #expect(try await site.upload(bytes, to: id).status == 200)
      let local = LocalAttachments(
        blobs: site.blobs, base: BlobURLBase(configured: nil, fallback: site.url), clock: site.clock.wall)
      #expect(try await Exchange.get(try await local.downloadURL(of: id)).body == bytes)
    }
  }

  // MARK: The site

  private struct Told {
    let id: Int64?
    let idString: String?
    let location: String

    init(_ answer: Exchange) throws {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
      id = (object["id"] as? NSNumber)?.int64Value
      idString = object["idString"] as? String
      location = try #require(object["location"] as? String)
    }
  }

  private static func with(
    quota: Int64 = 10 << 20, base: BlobURLBase = BlobURLBase(configured: nil, fallback: "http://fallback.example"),
    isSecure: Bool = false, _ body: (BlobSite, OneRelayCourier) async throws -> Void
  ) async throws {
    let courier = OneRelayCourier()
    try await BlobSite.with(routes: { router, store, blobs, clock in
      let devices = router.group()
        .add(middleware: OneCaller(isSecure: isSecure))
        .group(context: DeviceContext.self)
      AttachmentsController(
        store: store, blobs: blobs, courier: courier, homes: courier,
        limiter: LocalCoordination(
          buckets: Dictionary(uniqueKeysWithValues: LimiterName.allCases.map { ($0, $0.defaultBucket) }),
          clock: clock.wall),
        base: base, quota: AttachmentQuota(bytesMax: quota), mark: OneRelayCourier.ownMark, clock: clock.wall
      ).addRoutes(to: devices)
    }) { try await body($0, courier) }
  }
}

/// Every request comes from the same device: who may ask is not the matter here.
private struct OneCaller: RouterMiddleware {
  let isSecure: Bool

  func handle(
    _ request: Request, context: ClientContext, next: (Request, ClientContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    context.origin.isSecure = isSecure
    context.caller = Caller(
      address: DeviceAddress(BlobSite.account, .master),
      account: Account(number: BlobSite.account, devices: [], identityKey: nil, supportsSMS: false, voice: false)
    ) { true }
    return try await next(request, context)
  }
}

/// Knows the relay `beta` and its mark, and keeps what it was asked.
private final class OneRelayCourier: Courier, HomeFinder {
  static let ownMark = AttachmentMark(4711)!
  static let betaMark = AttachmentMark(65_535)!

  func home(of number: AccountNumber) async throws(Problem) -> RelayName? { nil }
  func home(of attachment: AttachmentID) -> RelayName? {
    attachment.mark == Self.betaMark ? RelayName("beta") : nil
  }
  private let questions = Mutex<[String]>([])
  var asked: [String] { questions.withLock { $0 } }

  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    guard relay.text == "beta" else { throw Problem(.notFound) }
    questions.withLock { $0.append("\(id.text) at \(relay.text)") }
    return "https://beta.example/\(id.text)"
  }
  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] { throw Problem(.notFound) }
  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    throw Problem(.notFound)
  }
  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) { throw Problem(.notFound) }
}
