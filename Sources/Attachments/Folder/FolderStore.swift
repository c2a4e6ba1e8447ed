import Foundation
package import RelayCore
import RelayHTTP
import RelayWork

/// Blobs as files of one folder, which all processes of the operator share.
///
/// `blobs/XX/ID` is a blob that is whole and on the device; `incoming/` holds uploads under way under random names. An
/// upload gets its blob's name by `link`, which refuses a name that is taken: of two uploads one wins. A process that
/// is killed leaves nothing but files in `incoming`, which the sweeper removes.
package struct FolderStore: BlobStore {
  private let blobs: String
  private let incoming: String
  let signer: BlobURLSigner

  /// Makes what is missing of the folder. Blocks: call it at start.
  /// - Throws: `BlobFailure` when that cannot be done.
  package init(folder: String, signer: BlobURLSigner) throws(BlobFailure) {
    self.signer = signer
    blobs = folder + "/blobs"
    incoming = folder + "/incoming"
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw BlobFailure("it cannot be made: \(FaultWords.of(error))")
    }
    try SystemFile.makeFolder(incoming)
    try SystemFile.makeFolder(blobs)
    // Made once, so that an upload need not sync two folders.
    for index in 0..<Self.subfolders { try SystemFile.makeFolder(subfolder(index)) }
    try SystemFile.syncFolder(blobs)
    try SystemFile.syncFolder(folder)
  }

  package func url(for use: BlobUse, of id: AttachmentID, base: String, now: Timestamp) -> String {
    signer.url(for: use, of: id, base: base, now: now)
  }

  package func bytes(of id: AttachmentID) async throws(BlobFailure) -> Int64? {
    let path = path(of: id)
    return try await BlockingWork.onBlobs { () throws(BlobFailure) in try SystemFile.size(of: path) }
  }

  package func remove(_ id: AttachmentID) async throws(BlobFailure) {
    let path = path(of: id)
    try await BlockingWork.onBlobs { () throws(BlobFailure) in try SystemFile.remove(path) }
  }

  package func removeLeftovers(before time: Timestamp) async throws(BlobFailure) {
    let incoming = incoming
    try await BlockingWork.onBlobs { () throws(BlobFailure) in
      for name in try SystemFile.files(in: incoming, before: time.millis, limit: Self.leftoversMax) {
        try SystemFile.remove("\(incoming)/\(name)")
      }
    }
  }

  package func blobs(
    inShare share: UInt8, writtenBefore time: Timestamp, limit: Int
  ) async throws(BlobFailure) -> [AttachmentID] {
    let folder = subfolder(Int(share))
    let names = try await BlockingWork.onBlobs { () throws(BlobFailure) in
      try SystemFile.files(in: folder, before: time.millis, limit: limit)
    }
    // A file is not ours if its name is not that of a blob of this subfolder.
    return names.compactMap { name in
      guard let id = AttachmentID(text: name), id.text == name, subfolder(of: id) == folder else { return nil }
      return id
    }
  }

  /// Leftovers of one run; the next one goes on.
  private static let leftoversMax = 100_000

  // MARK: Files

  /// A name for an upload that no other has.
  var freshIncomingPath: String { "\(incoming)/\(UUID().uuidString)" }
  func path(of id: AttachmentID) -> String { "\(subfolder(of: id))/\(id.text)" }
  /// Ids are random: the lowest byte spreads them evenly.
  func subfolder(of id: AttachmentID) -> String { subfolder(Int(id.value & 0xFF)) }
  private func subfolder(_ index: Int) -> String { "\(blobs)/\(Hex.encode([UInt8(index)]))" }
  private static let subfolders = 256
}

/// A folder may lie on a server that does not answer: whatever else of the process blocks has threads of its own.
private let blobThreads = BlockingThreads(4)

extension BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled: what it has begun must be cleaned up.
  static func onBlobs<Value: Sendable>(
    _ work: @escaping @Sendable () throws(BlobFailure) -> Value
  ) async throws(BlobFailure) -> Value {
    guard let value = try await blobThreads.run(work) else { throw BlobFailure("the process is ending") }
    return value
  }
}
