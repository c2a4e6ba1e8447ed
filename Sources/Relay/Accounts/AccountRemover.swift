package import RelayCore

/// Deletes accounts: the blobs of their attachments first, then every row in one transaction. Broken off, it may be repeated
/// and goes on where it ended.
package struct AccountRemover: Sendable {
  private let store: any AccountRemovalStore
  private let attachments: any AttachmentRemoval

  package init(store: any AccountRemovalStore, attachments: any AttachmentRemoval) {
    self.store = store
    self.attachments = attachments
  }

  /// - Parameters:
  ///   - installation: the password of device 1 that asked for it; nil when the operator does.
  ///   - isBanned: whether the number may have no account from here on, also where it has none.
  /// - Returns: nil when there is no such account, or another installation; else the rows and how many attachments went.
  /// - Throws: `.unavailable` when a store fails: the account is there still.
  package func remove(
    _ number: AccountNumber, of installation: PasswordHash? = nil, isBanned: Bool = false
  ) async throws(Problem) -> (rows: AccountRemoval, attachments: Int)? {
    let blobs = try await attachments.removeAttachments(of: number)
    do throws(StoreError) {
      guard let rows = try await store.removeAccount(number, of: installation, isBanned: isBanned) else { return nil }
      return (rows, blobs)
    } catch {
      throw Problem(error)
    }
  }
}
