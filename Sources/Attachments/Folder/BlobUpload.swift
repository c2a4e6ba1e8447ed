import Hummingbird
import Logging
import NIOCore
import RelayCore

/// Takes one blob in: body, file, store, in this order; whatever fails, nothing of it stays.
struct BlobUpload: Sendable {
  let folder: FolderStore
  let store: any AttachmentStore
  let policy: AttachmentPolicy
  let pace: TransferPace
  let clock: JudgedClock
  let metrics: AttachmentMetrics
  let logger: Logger

  /// On return the blob is durable and can be downloaded.
  /// - Parameter length: what the request declares; no more than the policy allows.
  func run(_ body: RequestBody, length: Int64, for attachment: Attachment) async throws(Problem) {
    let incoming: IncomingBlob
    do throws(BlobFailure) {
      incoming = try await folder.begin()
    } catch {
      throw Problem(error)
    }
    let outcome: Result<Void, Problem>
    do throws(Problem) {
      try await receive(body, length, into: incoming)
      outcome = .success(try await keep(incoming, length, as: attachment))
    } catch {
      outcome = .failure(error)
    }
    do throws(BlobFailure) {
      try await folder.discard(incoming)
    } catch {
      // The sweeper will find it.
      logger.warning("the file of an upload cannot be removed", metadata: ["reason": "\(error)"])
    }
    try outcome.get()
  }

  /// Writes the body to the file as it comes.
  private func receive(_ body: RequestBody, _ length: Int64, into incoming: IncomingBlob) async throws(Problem) {
    do {
      try await pace.keep { progress in
        var held = ByteBuffer()
        for try await piece in body {
          progress.passed(piece.readableBytes)
          metrics.received(piece.readableBytes)
          guard progress.bytes <= length else { throw Problem(.uploadIncomplete) }
          held.writeImmutableBuffer(piece)
          guard held.readableBytes >= Self.heldBytesMax else { continue }
          try await folder.append(held, to: incoming)
          held.clear()
        }
        // A connection that ends early looks like the body's end.
        guard progress.bytes == length else { throw Problem(.uploadIncomplete) }
        try await folder.append(held, to: incoming)
      }
    } catch let problem as Problem {
      throw problem
    } catch let failure as BlobFailure {
      throw Problem(failure)
    } catch {
      // Too slow, or the connection broke.
      throw Problem(.uploadIncomplete)
    }
  }

  /// Pieces come in the sizes that the network delivers: so many bytes are written at once.
  private static let heldBytesMax = 128 << 10

  private func keep(_ incoming: IncomingBlob, _ length: Int64, as attachment: Attachment) async throws(Problem) {
    // From here on the sweeper may remove it.
    guard clock.now() < attachment.expires else { throw Problem(.notFound) }
    let placement = try await place(incoming, as: attachment.id)
    guard placement != .otherThere else { throw Problem(.alreadyUploaded) }
    switch try await finish(attachment.id, length) {
    case .finished: return
    case .alreadyFinished: throw Problem(.alreadyUploaded)
    case .unknown:
      try await withdraw(attachment.id, placement)
      throw Problem(.notFound)
    case .quotaExceeded:
      try await withdraw(attachment.id, placement)
      throw Problem(.quotaExceeded, retryAfter: .seconds(3600))
    }
  }

  private func place(_ incoming: IncomingBlob, as id: AttachmentID) async throws(Problem) -> Placement {
    do throws(BlobFailure) {
      return try await folder.place(incoming, as: id)
    } catch {
      throw Problem(error)
    }
  }

  /// When the store does not answer, the blob stays: a repeated upload of the same bytes finds it and tells the store.
  private func finish(_ id: AttachmentID, _ bytes: Int64) async throws(Problem) -> AttachmentOutcome {
    do throws(StoreError) {
      return try await store.finishAttachment(
        id, bytes: bytes, expires: clock.arrival().adding(policy.retention), quota: policy.quota)
    } catch {
      throw Problem(error)
    }
  }

  /// Removes the blob that this upload placed. A blob that another upload placed stays. It also stays if another
  /// upload of the same bytes has told the store meanwhile.
  private func withdraw(_ id: AttachmentID, _ placement: Placement) async throws(Problem) {
    guard placement == .placed, try await !isFinished(id) else { return }
    do throws(BlobFailure) {
      try await folder.remove(id)
    } catch {
      throw Problem(error)
    }
  }

  private func isFinished(_ id: AttachmentID) async throws(Problem) -> Bool {
    do throws(StoreError) {
      return try await store.attachment(id)?.bytes != nil
    } catch {
      throw Problem(error)
    }
  }
}

extension Problem {
  /// The words go to the log alone.
  init(_ failure: BlobFailure) {
    self.init(.unavailable, retryAfter: .seconds(1), reason: "\(failure)")
  }
}
