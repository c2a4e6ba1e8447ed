import RelayCore

extension ServerSecretStore {
  /// `serverKey` of both stores. A sealed key is longer than the key itself: so what lies as it is can be told.
  func serverKey(
    _ name: ServerKeyName, _ sealer: SecretSealer, orStore draw: @Sendable () -> SecretBytes
  ) async throws(StoreError) -> SecretBytes {
    let stored: [UInt8]
    if let found = try await serverSecret(name.rawValue) {
      stored = found
    } else {
      let drawn = draw()
      stored = try await serverSecret(
        name.rawValue, orStore: sealer.seal(drawn, named: name.rawValue) ?? drawn.bytes)
    }
    guard stored.count <= name.byteCount else { return try sealer.open(stored, named: name.rawValue) }
    let key = SecretBytes(stored)
    if stored.count == name.byteCount, let sealed = try sealer.seal(key, named: name.rawValue) {
      // False when another process was faster.
      _ = try await replaceServerSecret(name.rawValue, stored, with: sealed)
    }
    return key
  }

  /// Seals the relay's own keys anew where they lie under the former encryption key; they stay the same keys.
  func resealServerKeys(_ sealer: SecretSealer) async throws(StoreError) {
    for name in [TokenState.keyName] + ServerKeyName.allCases.map(\.rawValue) {
      guard let stored = try await serverSecret(name), let resealed = try sealer.resealed(stored, named: name) else {
        continue
      }
      // False when another process was faster.
      _ = try await replaceServerSecret(name, stored, with: resealed)
    }
  }
}
