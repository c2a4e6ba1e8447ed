import Crypto
package import RelayCore
import Synchronization
package import VOPRF

/// The operator's key of the oblivious pseudorandom function: ristretto255-SHA512 of RFC 9497 in its verifiable mode.
///
/// Its computations take tenths of milliseconds for each contact. They run on threads made for that
/// (`ObliviousThreads`).
package struct ObliviousKey: Sendable {
  package let id: ObliviousKeyID
  /// 32 bytes.
  package let publicBytes: [UInt8]
  /// 32 random bytes, of which the key is derived.
  package let secret: SecretBytes
  private let key: EvaluationKey

  private static let info = Array(ServerKeyName.oblivious.rawValue.utf8)

  /// - Returns: nil unless `secret` has 32 bytes.
  package init?(secret: SecretBytes) {
    guard let key = EvaluationKey(seed: secret.bytes, info: Self.info) else { return nil }
    self.key = key
    self.secret = secret
    publicBytes = key.publicKey.element.bytes
    id = ObliviousKeyID(bits: SHA256.hash(data: publicBytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
  }

  /// The secret of a new key.
  static func draw() -> SecretBytes {
    SecretBytes((0..<EvaluationKey.seedByteCount).map { _ in UInt8.random(in: .min ... .max) })
  }

  /// The function's outputs for contacts that the relay knows, without a proof.
  package func outputs(of tokens: [ContactToken]) throws(VOPRFFailure) -> [ContactOutput] {
    var outputs: [ContactOutput] = []
    outputs.reserveCapacity(tokens.count)
    for token in tokens {
      outputs.append(ContactOutput(token, ObliviousOutput(firstBytesOf: try output(of: token.bytes))))
    }
    return outputs
  }

  /// All 64 bytes of the output for `input`.
  package func output(of input: [UInt8]) throws(VOPRFFailure) -> [UInt8] { try key.output(of: input) }

  /// Begins to evaluate what a client has blinded.
  package func batch() -> BatchEvaluation { BatchEvaluation(under: key) }
}

/// The operator's key as this process knows it: drawn by the first process, kept by the store, read again now and
/// then, so that another one in its place reaches every process.
package final class ObliviousKeyring: Sendable {
  private let store: any ServerSecretStore
  private let current = Mutex<ObliviousKey?>(nil)

  package init(store: any ServerSecretStore) { self.store = store }

  /// nil before `refresh` has succeeded once.
  package var key: ObliviousKey? { current.withLock { $0 } }

  /// Reads the key.
  /// - Throws: `.corrupted` for a secret that is no key, or does not open: the one before stays in use.
  @discardableResult
  package func refresh() async throws(StoreError) -> ObliviousKey {
    let secret = try await store.serverKey(.oblivious) { ObliviousKey.draw() }
    if let key, constantTimeEquals(key.secret.bytes, secret.bytes) { return key }
    guard let key = ObliviousKey(secret: secret) else {
      throw .corrupted(reason: "the secret \(ServerKeyName.oblivious.rawValue) has not 32 bytes")
    }
    current.withLock { $0 = key }
    return key
  }
}
