package import RelayCore

/// Says peers where blobs of our accounts are downloaded.
package struct LocalAttachments: AttachmentLocator {
  private let blobs: any BlobStore
  private let base: BlobURLBase
  private let clock: WallClock

  package init(blobs: any BlobStore, base: BlobURLBase, clock: WallClock) {
    self.blobs = blobs
    self.base = base
    self.clock = clock
  }

  package func downloadURL(of id: AttachmentID) async throws(Problem) -> String {
    blobs.url(for: .download, of: id, base: base.forPeers, now: clock.now())
  }
}
