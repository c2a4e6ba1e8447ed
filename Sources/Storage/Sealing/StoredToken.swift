import RelayCore

/// A contact token as a store's tables hold it: only `TokenSealer` makes one of a token and a token of it, so that no
/// statement takes a token, and no row gives one, past the sealer.
struct StoredToken: Sensitive, Sendable, Hashable {
  static let kind: StaticString = "stored token"
  /// `ContactToken.byteCount`, or `TokenSealer.sealedBytes` in a sealed store; anything else is damage, found when it
  /// is opened.
  let bytes: [UInt8]
  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// A value that every token comes after.
  static let beforeAll = StoredToken([])
}
