package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle
import Synchronization

/// Ends attachments: removes expired ones, the blob first, then the entry.
///
/// An attachment that waited for its blob until its end is looked for once more. A blob that a bucket received by a
/// presigned URL shows only there, and a process may have died between a blob and its entry. A blob that is found is
/// kept and counted, unless it is too large or the account has no room for it.
///
/// A blob that cannot be removed holds up nothing else. Every process may run the sweep: each step may be repeated,
/// and a process that dies leaves the rest to the next one.
package final class AttachmentSweeper: Service {
  private let store: any AttachmentStore
  private let blobs: any BlobStore
  private let policy: AttachmentPolicy
  private let interval: Duration
  private let clock: JudgedClock
  private let logger: Logger
  private let metrics = AttachmentMetrics()
  /// The failure of the last run, so that an outage is told once.
  private let failing = Mutex<String?>(nil)
  /// The share that the last run looked for unknown blobs in. Begins anywhere, so that a process that is restarted
  /// often comes to each.
  private let share = Atomic<UInt8>(.random(in: .min ... .max))

  package init(
    store: any AttachmentStore, blobs: any BlobStore, policy: AttachmentPolicy, interval: Duration = .seconds(600),
    clock: JudgedClock, logger: Logger
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
      for await _ in Periodic(every: self.interval, from: .afterInterval) { await self.sweep() }
    }
  }

  /// Runs once; a failure leaves the rest to the next run.
  package func sweep() async {
    var stuck = Set<AttachmentID>()
    var failure: Failure?
    do throws(Failure) {
      try await sweepExpired(&stuck, &failure)
    } catch {
      failure = error
    }
    for step in [sweepLeftovers, sweepUnknown] where !Task.isCancelled {
      do throws(Failure) {
        try await step()
      } catch {
        failure = failure ?? error
      }
    }
    report(failure, stuck: stuck.count)
  }

  private func report(_ failure: Failure?, stuck: Int) {
    guard !Task.isCancelled else { return }
    metrics.stuck(stuck)
    let told = failing.withLock { failing in
      defer { failing = failure?.description }
      return failing
    }
    if let failure, failure.description != told {
      logger.warning(
        "attachments cannot be swept", metadata: ["reason": "\(failure.description)", "attachments": "\(stuck)"])
    } else if failure == nil, told != nil {
      logger.notice("attachments can be swept again")
    }
  }

  private static let batchMax = 100
  /// A million attachments in one run.
  private static let roundsMax = 10_000
  /// So many whose blobs cannot be removed are gone behind in one run.
  private static let stuckMax = 1000

  // MARK: What has expired

  /// - Parameters:
  ///   - stuck: is left with the attachments whose blobs could not be removed.
  ///   - failure: is left with why.
  private func sweepExpired(_ stuck: inout Set<AttachmentID>, _ failure: inout Failure?) async throws(Failure) {
    var rounds = 0
    while try await sweepBatch(&stuck, &failure), rounds < Self.roundsMax, stuck.count < Self.stuckMax,
      !Task.isCancelled
    {
      rounds += 1
    }
  }

  /// - Returns: whether there may be more.
  private func sweepBatch(_ stuck: inout Set<AttachmentID>, _ failure: inout Failure?) async throws(Failure) -> Bool {
    let end = clock.removal().adding(.zero - BlobTimes.sweepGrace)
    // Stuck attachments are among the oldest: so many more are asked for.
    let limit = Self.batchMax + stuck.count
    let batch = try await stored { () async throws(StoreError) in
      try await store.expiredAttachments(before: end, limit: limit)
    }
    var removed: [AttachmentID] = []
    for attachment in batch where !stuck.contains(attachment.id) && !Task.isCancelled {
      do throws(Failure) {
        if try await isRemoved(attachment) { removed.append(attachment.id) }
      } catch {
        stuck.insert(attachment.id)
        failure = error
      }
    }
    try await stored { () async throws(StoreError) in try await store.removeAttachments(removed) }
    metrics.removed(removed.count)
    return batch.count == limit
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
    let expires = clock.arrival().adding(policy.retention)
    let outcome = try await stored { () async throws(StoreError) in
      try await store.finishAttachment(id, bytes: bytes, expires: expires, quota: policy.quota)
    }
    return switch outcome {
    // Another process may have been quicker.
    case .finished, .alreadyFinished: true
    case .unknown, .quotaExceeded: false
    }
  }

  // MARK: What nobody knows

  private func sweepLeftovers() async throws(Failure) {
    let time = clock.removal().adding(.zero - BlobTimes.leftoverLife)
    try await lying { () async throws(BlobFailure) in try await blobs.removeLeftovers(before: time) }
  }

  /// Removes blobs without an entry, which a database that was put back to an older state leaves behind, of one share
  /// of all in each run.
  private func sweepUnknown() async throws(Failure) {
    let share = share.wrappingAdd(1, ordering: .relaxed).newValue
    let time = clock.removal().adding(.zero - policy.retention - BlobTimes.unknownGrace)
    let old = try await lying { () async throws(BlobFailure) in
      try await blobs.blobs(inShare: share, writtenBefore: time, limit: Self.unknownMax)
    }
    var removed = 0
    defer {
      if removed > 0 { logger.notice("blobs of unknown attachments removed", metadata: ["blobs": "\(removed)"]) }
    }
    for id in old where !Task.isCancelled {
      let known = try await stored { () async throws(StoreError) in try await store.attachment(id) }
      guard known == nil else { continue }
      try await lying { () async throws(BlobFailure) in try await blobs.remove(id) }
      removed += 1
    }
  }

  /// Unknown blobs of one share in one run.
  private static let unknownMax = 10_000

  // MARK: Failures

  /// A failure of the store or of the place where blobs lie.
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
