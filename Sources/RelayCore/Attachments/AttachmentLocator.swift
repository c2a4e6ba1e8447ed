/// Says where blobs are downloaded. Implemented by Attachments, used by Federation for peers.
package protocol AttachmentLocator: Sendable {
  /// A URL that anyone may use for a limited time. Whether the blob exists is not checked (reference 1.10).
  func downloadURL(of id: AttachmentID) async throws(Problem) -> String
}
