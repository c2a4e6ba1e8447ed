import Synchronization

/// The tokens of Apple's keys: apps of one key show the same token, for Apple takes a new one of a key every 20 minutes
/// at most.
package final class APNsTokens: Sendable {
  struct Key: Sendable, Hashable {
    /// The key itself: a file that is replaced brings another.
    let text: String
    let keyID: String
    let teamID: String
  }
  private struct Entry {
    /// Lives as long as a provider has it.
    weak var token: SharedToken?
  }

  private let entries = Mutex<[Key: Entry]>([:])

  package init() {}

  /// The token of `key`, made by whoever asked first.
  func token(of key: Key, _ make: @escaping @Sendable () async -> SharedToken.Made) -> SharedToken {
    entries.withLock { entries in
      if let token = entries[key]?.token { return token }
      entries = entries.filter { $0.value.token != nil }
      let token = SharedToken(make: make)
      entries[key] = Entry(token: token)
      return token
    }
  }
}
