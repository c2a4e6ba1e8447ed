package import RelayCore

/// Deletes accounts: the blobs of their attachments first, then every row in one transaction.
package struct AccountRemover: AccountRemoving {
  private let store: any AccountRemovalStore
  private let attachments: any AttachmentRemoval

  package init(store: any AccountRemovalStore, attachments: any AttachmentRemoval) {
    self.store = store
    self.attachments = attachments
  }

  package func remove(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(Problem) -> AccountRemoval? {
    let blobs = try await attachments.removeAttachments(of: number)
    do throws(StoreError) {
      guard var removal = try await store.removeAccount(number, of: installation, isBanned: isBanned) else {
        return nil
      }
      removal.attachments = blobs
      return removal
    } catch {
      throw Problem(error)
    }
  }
}
