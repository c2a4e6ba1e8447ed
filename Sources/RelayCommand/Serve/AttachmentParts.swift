import AsyncHTTPClient
import Attachments
import Hummingbird
import Logging
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The attachments' part of the graph.
struct AttachmentParts {
  let locator: any AttachmentLocator
  let sweeper: any Service
  private let base: BlobURLBase
  private let blobs: any BlobStore
  private let quota: AttachmentQuota
  private let mark: AttachmentMark
  /// nil when blobs lie elsewhere.
  private let blobController: BlobController?

  /// - Parameters:
  ///   - url: of the client listener, where `attachments.public-url` names none.
  ///   - present: as the configuration was read last.
  init(
    _ settings: RelayConfiguration.Attachments, at url: String,
    present: @escaping @Sendable () -> RelayConfiguration.Attachments, storage: any Storage, client: HTTPClient,
    logger: Logger
  ) async throws {
    base = BlobURLBase(configured: settings.publicURL?.text, fallback: url)
    let clock = JudgedClock(.system, by: storage.judge)
    mark = settings.mark
    quota = AttachmentQuota(bytesMax: Int64(settings.accountBytesMax))
    let policy = AttachmentPolicy(bytesMax: Int64(settings.bytesMax), retention: settings.retention, quota: quota)
    switch settings.location {
    case .folder(let path):
      let folder = try await Self.folder(path, storage)
      blobs = folder
      blobController = BlobController(folder: folder, store: storage, policy: policy, clock: clock, logger: logger)
    case .s3(let bucket, let endpoint, let region):
      guard let credentials = settings.s3 else {
        throw CommandFailure(
          "attachments.s3.access-key and attachments.s3.secret-key are needed for attachments in S3.")
      }
      blobs = S3Store(
        endpoint: endpoint.text, bucket: bucket, region: region,
        accessKey: (present().s3 ?? credentials).accessKey, secretKey: (present().s3 ?? credentials).secretKey,
        client: client, clock: .system)
      blobController = nil
    }
    locator = LocalAttachments(blobs: blobs, base: base, clock: .system)
    sweeper = AttachmentSweeper(store: storage, blobs: blobs, policy: policy, clock: clock, logger: logger)
  }

  private static func folder(_ path: String, _ storage: any Storage) async throws -> FolderStore {
    let signer = try await BlobURLSigner(store: storage)
    do throws(BlobFailure) {
      return try FolderStore(folder: path, signer: signer)
    } catch {
      throw CommandFailure("attachments.url: the folder \(path) cannot be used: \(error). Check its owner and mode.")
    }
  }

  func addOpenRoutes(to router: some RouterMethods<ClientContext>) { blobController?.addBlobRoutes(to: router) }

  func controller(
    storage: any Storage, courier: any Courier, homes: any HomeFinder, limiter: any RateLimiter
  ) -> AttachmentsController {
    AttachmentsController(
      store: storage, blobs: blobs, courier: courier, homes: homes, limiter: limiter, base: base, quota: quota,
      mark: mark, clock: .system)
  }
}
