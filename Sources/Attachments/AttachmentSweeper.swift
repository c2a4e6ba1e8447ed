package import Logging
package import RelayCore
import ServiceLifecycle
import Synchronization

/// Ends attachments: removes what has expired, the blob first, then what is known of it.
///
/// An attachment that waited for its blob until its end is looked for once more: what a bucket received by a presigned
/// URL shows only there, and a process may have died between a blob and its entry. What is found is kept and counted,
/// unless it is too large or the account has no room for it.
///
/// Every process may run it: each step may be repeated, and a process that dies leaves the next one the rest.
package final class AttachmentSweeper: Service {
  private let store: any AttachmentStore
  private let blobs: any BlobStore
  private let policy: AttachmentPolicy
  private let interval: Duration
  private let clock: WallClock
  private let logger: Logger
  private let metrics = AttachmentMetrics()
  /// What the last run failed by, so that an outage is told once.
  private let failing = Mutex<String?>(nil)

  package init(
    store: any AttachmentStore, blobs: any BlobStore, policy: AttachmentPolicy, interval: Duration = .seconds(600),
    clock: WallClock, logger: Logger
  ) {
    self.store = store
    self.blobs = blobs
    self.policy = policy
    self.interval = interval
    self.clock = clock
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: self.interval)
        if !Task.isCancelled { await self.sweep() }
      }
    }
  }

  /// Runs once; a failure leaves the rest to the next run.
  package func sweep() async {
    do throws(Failure) {
      var rounds = 0
      while try await sweepBatch(), rounds < Self.roundsMax, !Task.isCancelled { rounds += 1 }
      let time = clock.now().adding(.zero - BlobTimes.leftoverLife)
      try await lying { () async throws(BlobFailure) in try await blobs.removeLeftovers(before: time) }
      if failing.withLock({ $0.take() }) != nil { logger.notice("attachments can be swept again") }
    } catch {
      let isNews = failing.withLock { failing in
        defer { failing = error.description }
        return failing != error.description
      }
      guard isNews, !Task.isCancelled else { return }
      logger.warning("attachments cannot be swept", metadata: ["reason": "\(error.description)"])
    }
  }

  private static let batchMax = 100
  /// A million attachments in one run.
  private static let roundsMax = 10_000

  /// - Returns: whether there may be more.
  /// - Throws: after what could be removed is removed.
  private func sweepBatch() async throws(Failure) -> Bool {
    let end = clock.now().adding(.zero - BlobTimes.sweepGrace)
    let batch = try await stored { () async throws(StoreError) in
      try await store.expiredAttachments(before: end, limit: Self.batchMax)
    }
    var removed: [AttachmentID] = []
    var failure: Failure?
    for attachment in batch where !Task.isCancelled {
      do throws(Failure) {
        if try await isRemoved(attachment) { removed.append(attachment.id) }
      } catch {
        failure = error
      }
    }
    try await stored { () async throws(StoreError) in try await store.removeAttachments(removed) }
    metrics.removed(removed.count)
    if let failure { throw failure }
    return batch.count == Self.batchMax
  }

  /// Removes the attachment's blob, unless it is one that came unseen and may stay.
  /// - Returns: whether the blob is gone.
  private func isRemoved(_ attachment: Attachment) async throws(Failure) -> Bool {
    let id = attachment.id
    if attachment.bytes == nil {
      let found = try await lying { () async throws(BlobFailure) in try await blobs.bytes(of: id) }
      if let bytes = found, bytes <= policy.bytesMax, try await isKept(id, bytes) { return false }
    }
    try await lying { () async throws(BlobFailure) in try await blobs.remove(id) }
    return true
  }

  private func isKept(_ id: AttachmentID, _ bytes: Int64) async throws(Failure) -> Bool {
    let expires = clock.now().adding(policy.retention)
    let outcome = try await stored { () async throws(StoreError) in
      try await store.finishAttachment(id, bytes: bytes, expires: expires, quota: policy.quota)
    }
    return switch outcome {
    // Another process may have been quicker.
    case .finished, .alreadyFinished: true
    case .unknown, .quotaExceeded: false
    }
  }

  // MARK: Failures

  /// Of the store or of the place where blobs lie.
  private struct Failure: Error {
    let description: String
  }

  private func stored<Value: Sendable>(_ ask: () async throws(StoreError) -> Value) async throws(Failure) -> Value {
    do throws(StoreError) {
      return try await ask()
    } catch {
      throw Failure(description: "\(error)")
    }
  }

  private func lying<Value: Sendable>(_ ask: () async throws(BlobFailure) -> Value) async throws(Failure) -> Value {
    do throws(BlobFailure) {
      return try await ask()
    } catch {
      throw Failure(description: "\(error)")
    }
  }
}
