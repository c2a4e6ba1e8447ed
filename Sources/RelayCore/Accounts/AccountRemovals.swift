// Accounts that are deleted, and numbers that may have none (docs/operating.md, "Deleting and banning").

/// The rows that went with an account.
package struct AccountRemoval: Sendable, Equatable {
  package var devices = 0
  /// One-time keys, last resorts not counted.
  package var oneTimePreKeys = 0
  /// Envelopes that waited for it, receipts included.
  package var waiting = 0
  /// Notes of what it had acknowledged.
  package var acknowledged = 0
  package var codes = 0
  /// Attachments whose blobs went before the rows; the store itself counts none.
  package var attachments = 0
  package init() {}
}

/// Deletes accounts. Implemented by Relay, used by Operations.
package protocol AccountRemoving: Sendable {
  /// As `AccountRemovalStore.removeAccount`, blobs first. Broken off, it may be repeated and goes on where it ended.
  /// - Throws: `.unavailable` when a store fails: the account is there still.
  func remove(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(Problem) -> AccountRemoval?
}

/// Deletes the rows of accounts, and keeps numbers that may have no account (docs/operating.md, "Deleting and
/// banning").
package protocol AccountRemovalStore: Sendable {
  /// Deletes the account of `number`, in one transaction: every row that the store keeps for it, but attachments,
  /// whose blobs go first, and what it has sent, which is its recipients'. Peers read it as inactive once more, for
  /// `Listing.unlistedLife`.
  /// - Parameters:
  ///   - installation: the password of device 1 that asked for it; nil when the operator does.
  ///   - isBanned: whether the number may have no account from here on, also where it has none.
  /// - Returns: nil when there is no such account, or another installation.
  func removeAccount(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(StoreError) -> AccountRemoval?

  /// - Returns: false when the number was not banned.
  func unban(_ number: AccountNumber) async throws(StoreError) -> Bool

  /// Whether the number may have no account.
  func isBanned(_ number: AccountNumber) async throws(StoreError) -> Bool

  /// How many numbers are banned: of each the store keeps a hash alone.
  func bannedCount() async throws(StoreError) -> Int

  /// Attachments of one account, uploaded or not: at most `limit`, in no order.
  func attachments(of number: AccountNumber, limit: Int) async throws(StoreError) -> [AttachmentID]
}

/// Removes the blobs of one account, and what is known of them.
package protocol AttachmentRemoval: Sendable {
  /// May be repeated: what is broken off goes on where it ended.
  /// - Returns: how many attachments went.
  /// - Throws: `.unavailable` when the store, or the place where blobs lie, fails.
  func removeAttachments(of number: AccountNumber) async throws(Problem) -> Int
}

package enum Listing {
  /// How long a deleted account's token stays in the feed of changes: a peer that is away for longer reads the whole
  /// listing anew.
  package static let unlistedLife = Duration.seconds(30 * 86_400)
}
