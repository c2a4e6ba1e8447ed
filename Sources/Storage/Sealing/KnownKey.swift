import RelayCore
import Synchronization

/// A value made of a key that the relay can replace without loss to users. It is read from the store once, and stays
/// the same for as long as the process lives.
final class KnownKey<Value: Sendable>: Sendable {
  private let name: ServerKeyName
  private let make: @Sendable (SecretBytes) -> Value
  private let known = Mutex<Value?>(nil)

  init(_ name: ServerKeyName, _ make: @escaping @Sendable (SecretBytes) -> Value) {
    self.name = name
    self.make = make
  }

  /// - Parameter store: where the key lies, and is drawn on first use.
  func value(in store: some ServerSecretStore) async throws(StoreError) -> Value {
    if let value = known.withLock({ $0 }) { return value }
    let key: SecretBytes
    do throws(StoreError) {
      key = try await store.serverKey(name) { [name] in Self.draw(name) }
    } catch {
      guard case .corrupted = error else { throw error }
      key = try await redrawn(in: store)
    }
    let value = make(key)
    known.withLock { $0 = value }
    return value
  }

  /// An encryption key that is lost takes nobody with it: a key that does not open is replaced, and what was made with
  /// it is void.
  private func redrawn(in store: some ServerSecretStore) async throws(StoreError) -> SecretBytes {
    if let stored = try await store.serverSecret(name.rawValue) {
      // False when another process was faster. A key that lies as it is, is sealed when it is read.
      _ = try await store.replaceServerSecret(name.rawValue, stored, with: Self.draw(name).bytes)
    }
    return try await store.serverKey(name) { [name] in Self.draw(name) }
  }

  private static func draw(_ name: ServerKeyName) -> SecretBytes {
    SecretBytes((0..<name.byteCount).map { _ in UInt8.random(in: .min ... .max) })
  }
}
