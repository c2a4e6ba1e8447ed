import RelayCore

/// The state of a store's contact tokens, as two of its server secrets (docs/directory.md, "At rest").
struct TokenState: Sendable, Equatable {
  /// The name of the row that holds the key of the tokens, itself sealed under `storage.encryption-key`. It is there
  /// from the first token on that is sealed.
  static let keyName = "contact-token-key"
  /// The name of the row that is there while a store that held tokens is being sealed.
  static let progressName = "contact-token-sealing"

  /// As it is stored; nil in a store whose tokens lie as they are.
  var sealedKey: [UInt8]?
  var isUnderWay = false

  init(sealedKey: [UInt8]? = nil, isUnderWay: Bool = false) {
    self.sealedKey = sealedKey
    self.isUnderWay = isUnderWay
  }

  /// How tokens lie in such a store.
  /// - Throws: `.unavailable` while they are being sealed: some lie so, some otherwise; `.corrupted` without the right
  ///   key.
  func tokens(_ secrets: SecretSealer) throws(StoreError) -> TokenSealer {
    guard !isUnderWay else {
      throw .unavailable(reason: "contact tokens are being sealed: `relay storage seal-contacts` goes on with it")
    }
    guard let sealedKey else { return .plain }
    return try TokenSealer(key: secrets.open(sealedKey, named: Self.keyName))
  }

  func sealing(_ secrets: SecretSealer) -> ContactSealing {
    guard let sealedKey else { return isUnderWay ? .underWay : .plain }
    do throws(StoreError) {
      _ = try TokenSealer(key: secrets.open(sealedKey, named: Self.keyName))
    } catch {
      return .locked
    }
    return isUnderWay ? .underWay : .sealed
  }

  /// A key for a store that has none.
  /// - Returns: as it is to be stored; nil without an encryption key: a key beside what it locks would protect nothing.
  static func newKey(_ secrets: SecretSealer) throws(StoreError) -> [UInt8]? {
    guard secrets.isSealing else { return nil }
    let key = SecretBytes((0..<TokenSealer.keyBytes).map { _ in UInt8.random(in: .min ... .max) })
    return try secrets.seal(key, named: keyName)
  }
}
