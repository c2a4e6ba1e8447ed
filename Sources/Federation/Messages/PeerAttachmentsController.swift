import Hummingbird
import RelayCore
import RelayHTTP

/// Tells peers where they can download the blobs of our accounts' attachments (reference 1.13.2).
struct PeerAttachmentsController: Sendable {
  let locator: any AttachmentLocator

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/attachment/{id}", [(.get, location)])
  }

  private func location(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let id = AttachmentID(text: try context.segment("id")) else { throw Problem(.notFound) }
    guard let location = AttachmentLocation(try await locator.downloadURL(of: id)) else {
      throw Problem(.internalError, reason: "the attachment store's URL is none that a peer would take")
    }
    return .json(location.json)
  }
}
