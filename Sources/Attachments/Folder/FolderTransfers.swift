import Glibc
import NIOCore
import RelayCore
import RelayWork

// MARK: Uploads

extension FolderStore {
  /// A new file for an upload; `discard` ends it, whatever became of it.
  func begin() async throws(BlobFailure) -> IncomingBlob {
    let path = freshIncomingPath
    return try await BlockingWork.onBlobs { () throws(BlobFailure) in
      IncomingBlob(descriptor: try SystemFile.open(path, O_WRONLY | O_CREAT | O_EXCL), path: path)
    }
  }

  func append(_ bytes: ByteBuffer, to blob: IncomingBlob) async throws(BlobFailure) {
    try await BlockingWork.onBlobs { () throws(BlobFailure) in try SystemFile.write(bytes, to: blob.descriptor) }
  }

  /// Makes the upload the blob `id`, durable on return, also where the same bytes were there before.
  ///
  /// - Throws: the blob may be there then, but perhaps not after a crash. It is left: an upload of the same bytes at
  ///   the same time may have told its client that it is kept. A repeated upload finds it, or else the sweeper.
  func place(_ blob: IncomingBlob, as id: AttachmentID) async throws(BlobFailure) -> Placement {
    let (path, folder) = (path(of: id), subfolder(of: id))
    return try await BlockingWork.onBlobs { () throws(BlobFailure) in
      try SystemFile.sync(blob.descriptor)
      guard try SystemFile.link(blob.path, as: path) else {
        guard try SystemFile.isSame(blob.path, path) else { return .otherThere }
        // The upload that gave it the name may not have come so far.
        try SystemFile.syncFolder(folder)
        return .sameThere
      }
      try SystemFile.syncFolder(folder)
      return .placed
    }
  }

  /// Forgets the upload; a blob that it has become stays.
  func discard(_ blob: IncomingBlob) async throws(BlobFailure) {
    try await BlockingWork.onBlobs { () throws(BlobFailure) in
      close(blob.descriptor)
      try SystemFile.remove(blob.path)
    }
  }
}

/// An upload under way: a file that nobody else knows.
struct IncomingBlob: Sendable {
  fileprivate let descriptor: Int32
  fileprivate let path: String
}

/// The outcome of an upload.
enum Placement: Sendable {
  case placed
  /// An upload of the same bytes was there first, perhaps one whose process died before it told the store.
  case sameThere
  case otherThere
}

// MARK: Downloads

extension FolderStore {
  /// - Returns: nil when there is no such blob.
  func open(_ id: AttachmentID) async throws(BlobFailure) -> OpenBlob? {
    let path = path(of: id)
    return try await BlockingWork.onBlobs { () throws(BlobFailure) in
      guard let descriptor = try SystemFile.openIfPresent(path) else { return nil }
      return try OpenBlob(descriptor: descriptor)
    }
  }
}

/// A blob that is being read: it stays readable when the sweeper removes it meanwhile. Closed with its last holder.
final class OpenBlob: Sendable {
  let bytes: Int64
  private let descriptor: Int32

  /// Takes the descriptor over.
  fileprivate init(descriptor: Int32) throws(BlobFailure) {
    self.descriptor = descriptor
    do throws(BlobFailure) {
      bytes = try SystemFile.size(of: descriptor)
    } catch {
      close(descriptor)
      throw error
    }
  }

  deinit { close(descriptor) }

  /// - Returns: up to `count` bytes from `offset` on; fewer only at the end.
  func read(at offset: Int64, count: Int) async throws(BlobFailure) -> ByteBuffer {
    try await BlockingWork.onBlobs { () throws(BlobFailure) in
      try SystemFile.read(self.descriptor, at: offset, count: count)
    }
  }
}
