import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
package import RelayCore
package import RelayHTTP

/// Uploads and downloads of blobs in a folder of ours, by signed URLs (reference 1.10).
///
/// Callers are not authenticated here: the URL is the permission.
package struct BlobController: Sendable {
  private let folder: FolderStore
  private let store: any AttachmentStore
  private let policy: AttachmentPolicy
  private let paces: (upload: TransferPace, download: TransferPace)
  private let clock: JudgedClock
  private let logger: Logger
  private let slots: TransferSlots
  private let metrics = AttachmentMetrics()

  package init(
    folder: FolderStore, store: any AttachmentStore, policy: AttachmentPolicy, uploadPace: TransferPace = .upload,
    downloadPace: TransferPace = .download, downloads: DownloadBounds = DownloadBounds(), clock: JudgedClock,
    logger: Logger
  ) {
    self.folder = folder
    self.store = store
    self.policy = policy
    paces = (uploadPace, downloadPace)
    slots = TransferSlots(downloads: downloads)
    self.clock = clock
    self.logger = logger
  }

  package func addBlobRoutes(to router: some RouterMethods<ClientContext>) {
    router.resource("\(BlobURLSigner.path):id", [(.put, upload), (.get, download)])
  }

  @Sendable private func upload(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    try await counted { () async throws(Problem) in
      let attachment = try await expected(try authorized(request, context, for: .upload))
      let length = try declaredLength(of: request)
      let lease = try slots.upload(of: attachment.account)
      defer { withExtendedLifetime(lease) {} }
      let upload = BlobUpload(
        folder: folder, store: store, policy: policy, pace: paces.upload, clock: clock, metrics: metrics,
        logger: logger)
      try await upload.run(request.body, length: length, for: attachment)
      return .done
    }
  }

  @Sendable private func download(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    try await counted { () async throws(Problem) in
      let id = try authorized(request, context, for: .download)
      let lease = try slots.download(of: id, by: context.origin)
      guard let blob = try await open(id) else { throw Problem(.notFound) }
      return Response(
        status: .ok,
        headers: [
          .contentType: Self.mediaType, .cacheControl: "private", .xContentTypeOptions: "nosniff",
        ],
        body: body(of: blob, lease, context.eventLoop))
    }
  }

  // MARK: Checks

  private func authorized(_ request: Request, _ context: ClientContext, for use: BlobUse) throws(Problem)
    -> AttachmentID
  {
    guard let id = AttachmentID(text: try context.segment("id")) else { throw Problem(.notFound) }
    let query = request.uri.queryParameters
    try folder.signer.check(
      id, expires: query.get("expires"), signature: query.get("signature"), for: use, now: clock.now())
    return id
  }

  /// The attachment that waits for this upload.
  private func expected(_ id: AttachmentID) async throws(Problem) -> Attachment {
    let found: Attachment?
    do throws(StoreError) {
      found = try await store.attachment(id)
    } catch {
      throw Problem(error)
    }
    guard let attachment = found else { throw Problem(.notFound) }
    guard attachment.bytes == nil else { throw Problem(.alreadyUploaded) }
    return attachment
  }

  /// - Throws: `.urlRefused` for another media type, which the historic signature covered; `.uploadIncomplete` without
  ///   a length: only by it can a whole body be told from one whose connection ended.
  private func declaredLength(of request: Request) throws(Problem) -> Int64 {
    let type = request.headers[.contentType]?.prefix { $0 != ";" }
    guard type?.lowercased().trimmingPrefix(while: { $0 == " " }).prefix(while: { $0 != " " }) == Self.mediaType[...]
    else { throw Problem(.urlRefused) }
    guard let length = request.headers[.contentLength].flatMap({ Int64($0) }), length >= 0 else {
      throw Problem(.uploadIncomplete)
    }
    guard length <= policy.bytesMax else { throw Problem(.bodyTooLarge) }
    return length
  }

  private static let mediaType = "application/octet-stream"

  // MARK: Bodies

  private func open(_ id: AttachmentID) async throws(Problem) -> OpenBlob? {
    do throws(BlobFailure) {
      return try await folder.open(id)
    } catch {
      throw Problem(error)
    }
  }

  /// - Parameter eventLoop: of the connection.
  private func body(of blob: OpenBlob, _ lease: TransferSlots.Lease, _ eventLoop: (any EventLoop)?) -> ResponseBody {
    let (pace, metrics) = (paces.download, metrics)
    return ResponseBody(contentLength: Int(blob.bytes)) { writer in
      defer { withExtendedLifetime(lease) {} }
      // Safe: while the task that `keep` makes writes, this one only waits for it.
      nonisolated(unsafe) let shared = writer
      try await pace.keep { progress in
        var output = shared
        while progress.bytes < blob.bytes {
          let rest = Int(blob.bytes) - progress.bytes
          let piece = try await blob.read(at: Int64(progress.bytes), count: min(rest, Self.pieceBytesMax))
          guard piece.readableBytes > 0 else { throw BlobFailure("a blob has become shorter while it was read") }
          let count = piece.readableBytes
          try await output.write(piece)
          // Only on its event loop a connection finds out that it takes no more, and NIO's writer (2.x,
          // `NIOAsyncWriter`) takes any number of pieces before that has come to the first: a file is read faster than
          // they are encrypted.
          try await eventLoop?.submit {}.get()
          progress.passed(count)
          metrics.sent(count)
        }
      }
      try await writer.finish(nil)
    }
  }

  private static let pieceBytesMax = 64 << 10

  private func counted(_ answer: () async throws(Problem) -> Response) async throws(Problem) -> Response {
    do throws(Problem) {
      return try await answer()
    } catch {
      metrics.refused(error.kind)
      throw error
    }
  }
}
