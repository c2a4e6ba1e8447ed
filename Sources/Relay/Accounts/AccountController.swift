package import Hummingbird
package import RelayCore
package import RelayHTTP

/// People delete their own accounts: `DELETE /v1/accounts/` (docs/protocol.md, "Deleting an account"; our own
/// resource).
package struct AccountController: Sendable {
  private let remover: AccountRemover
  private let accounts: AccountCache
  private let directory: (any DirectoryMirror)?

  /// - Parameter directory: what look-ups of this process see; nil where they see the store itself.
  package init(remover: AccountRemover, accounts: AccountCache, directory: (any DirectoryMirror)?) {
    self.remover = remover
    self.accounts = accounts
    self.directory = directory
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/accounts", [(.delete, delete)])
  }

  /// The installation that asked is deleted, or none: a newer one of the same number stays.
  @Sendable private func delete(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard context.caller.address.device == .master else { throw Problem(.deviceRefused) }
    guard let installation = context.caller.account.device(.master)?.password else { throw Problem(.unauthorized) }
    let number = context.caller.address.account
    let removed: AccountRemoval?
    do throws(Problem) {
      removed = try await remover.remove(number, of: installation, isBanned: false)
    } catch {
      // A commit whose answer was lost may have deleted it all the same.
      await accounts.changed(number)
      throw error
    }
    await accounts.changed(number)
    guard removed != nil else { throw Problem(.unauthorized) }
    await directory?.catchUp()
    return .done
  }
}

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
