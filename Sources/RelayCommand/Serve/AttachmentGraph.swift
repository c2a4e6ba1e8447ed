import AsyncHTTPClient
import Attachments
import Hummingbird
import Logging
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The attachments' part of the graph.
struct AttachmentGraph {
  let locator: any AttachmentLocator
  let sweeper: any Service
  let removal: any AttachmentRemoval
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
    blobs = try await openBlobs(settings, present: present, storage: storage, client: client)
    blobController = (blobs as? FolderStore).map { folder in
      BlobController(folder: folder, store: storage, policy: policy, clock: clock, logger: logger)
    }
    removal = AccountAttachments(store: storage, blobs: blobs)
    locator = LocalAttachments(blobs: blobs, base: base, clock: .system)
    sweeper = AttachmentSweeper(store: storage, blobs: blobs, policy: policy, clock: clock, logger: logger)
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

/// Opens the place where blobs lie.
/// - Parameter present: as the configuration was read last.
func openBlobs(
  _ settings: RelayConfiguration.Attachments, present: @escaping @Sendable () -> RelayConfiguration.Attachments,
  storage: any Storage, client: HTTPClient
) async throws -> any BlobStore {
  switch settings.location {
  case .folder(let path):
    let signer = try await BlobURLSigner(store: storage)
    do throws(BlobFailure) {
      return try FolderStore(folder: path, signer: signer)
    } catch {
      throw CommandFailure("attachments.url: the folder \(path) cannot be used: \(error). Check its owner and mode.")
    }
  case .s3(let bucket, let endpoint, let region):
    guard let credentials = present().s3 ?? settings.s3 else {
      throw CommandFailure("attachments.s3.access-key and attachments.s3.secret-key are needed for attachments in S3.")
    }
    return S3Store(
      endpoint: endpoint.text, bucket: bucket, region: region,
      keys: {
        // Keys of another place are not shown to this one: that place needs a restart.
        let now = present()
        let keys = now.location == settings.location ? now.s3 ?? credentials : credentials
        return (keys.accessKey, keys.secretKey)
      }, client: client, clock: .system)
  }
}
