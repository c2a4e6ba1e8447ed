import HTTPTypes
package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Tells devices where blobs are uploaded and downloaded (reference 1.10).
package struct AttachmentsController: Sendable {
  private let store: any AttachmentStore
  private let blobs: any BlobStore
  private let courier: any Courier
  private let homes: any HomeFinder
  private let limiter: any RateLimiter
  private let base: BlobURLBase
  private let quota: AttachmentQuota
  private let mark: AttachmentMark
  private let clock: WallClock
  private let metrics = AttachmentMetrics()

  /// - Parameter mark: what new ids begin with.
  package init(
    store: any AttachmentStore, blobs: any BlobStore, courier: any Courier, homes: any HomeFinder,
    limiter: any RateLimiter, base: BlobURLBase, quota: AttachmentQuota, mark: AttachmentMark, clock: WallClock
  ) {
    self.store = store
    self.blobs = blobs
    self.courier = courier
    self.homes = homes
    self.limiter = limiter
    self.base = base
    self.quota = quota
    self.mark = mark
    self.clock = clock
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/attachments", [(.get, allocate)])
    router.resource("/v1/attachments/:id", [(.get, locate)])
  }

  /// A new attachment and where its blob is uploaded.
  @Sendable private func allocate(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let account = context.caller.address.account
    try await limiter.charge(.attachments, LimitKey(account))
    let now = clock.now()
    let id = AttachmentID.random(mark)
    let attachment = Attachment(id: id, account: account, bytes: nil, expires: now.adding(BlobTimes.pendingLife))
    let hasRoom: Bool
    do throws(StoreError) {
      hasRoom = try await store.addAttachment(attachment, quota: quota)
    } catch {
      throw Problem(error)
    }
    guard hasRoom else {
      metrics.refused(.quotaExceeded)
      throw Problem(.quotaExceeded, retryAfter: BlobTimes.pendingLife)
    }
    return .attachment(id, at: blobs.url(for: .upload, of: id, base: requestBase(request, context), now: now))
  }

  /// Whether the blob exists is not checked: an unknown id yields a URL that leads nowhere (reference 1.10).
  @Sendable private func locate(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let id = AttachmentID(text: try context.segment("id")) else { throw Problem(.notFound) }
    guard let relay = try await relay(of: id, named: try request.relay()) else {
      return .attachment(
        at: blobs.url(for: .download, of: id, base: requestBase(request, context), now: clock.now()))
    }
    // Each occupies one of the peer's places for as long as the peer likes.
    try await limiter.charge(.attachments, LimitKey(context.caller.address.account))
    return .attachment(at: try await courier.attachmentURL(of: id, at: relay))
  }

  /// An id of an earlier release may bear a peer's mark by chance, and one of ours a mark that was ours before: what
  /// is known here is here.
  private func relay(of id: AttachmentID, named relay: RelayName?) async throws(Problem) -> RelayName? {
    if let relay { return relay }
    guard let relay = homes.home(of: id) else { return nil }
    do throws(StoreError) {
      return try await store.attachment(id) == nil ? relay : nil
    } catch {
      throw Problem(error)
    }
  }

  private func requestBase(_ request: Request, _ context: DeviceContext) -> String {
    base.forRequest(to: request.head.authority, isSecure: context.origin.isSecure)
  }
}

extension AttachmentID {
  /// Drawn from the system's generator: an id is the one thing that a stranger would have to guess (reference Part 6,
  /// 20).
  static func random(_ mark: AttachmentMark) -> AttachmentID {
    var generator = SystemRandomNumberGenerator()
    return AttachmentID(mark, random: UInt64.random(in: .min ... .max, using: &generator))
  }
}

extension Response {
  /// `{"location"}`, with `id` and `idString` for a new attachment. The id is a number of up to 63 bits, which some
  /// parsers cut short: the string says the same (reference 1.10). The header is for the oldest client.
  fileprivate static func attachment(_ id: AttachmentID? = nil, at location: String) -> Response {
    var writer = JSONWriter()
    writer.beginObject()
    if let id {
      writer.key("id")
      writer.integer(id.value)
      writer.key("idString")
      writer.string(id.text)
    }
    writer.key("location")
    writer.string(location)
    writer.endObject()
    var response = Response.json(writer.bytes)
    response.headers[.contentLocation] = location
    return response
  }
}
