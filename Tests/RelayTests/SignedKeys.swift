import Crypto
import RelayClient
import RelayCore
import TestSupport

/// Keys of version 2 as a client makes them, and their JSON.
struct SignedKeys: Sendable {
  let identity: IdentityKeys

  init() throws { identity = try IdentityKeys() }

  /// A public key that nobody has the other half of.
  static func publicKey() -> String {
    Base64.encode([0x05] + Curve25519.KeyAgreement.PrivateKey().publicKey.rawRepresentation, padded: false)
  }

  /// `{"keyId", "publicKey", "signature"}`, rightly signed.
  func signed(_ id: Int = 5) throws -> String {
    let key = Self.publicKey()
    return #"{"keyId":\#(id),"publicKey":"\#(key)","signature":"\#(try identity.signature(of: key))"}"#
  }

  /// The body of `PUT /v2/keys`. - Parameter lastResort: nil leaves it out.
  func upload(_ ids: [Int], lastResort: Int? = 16_777_215, signed: String? = nil) throws -> String {
    let keys = ids.map { #"{"keyId":\#($0),"publicKey":"key-\#($0)"}"# }.joined(separator: ",")
    let last = lastResort.map { #","lastResortKey":{"keyId":\#($0),"publicKey":"key-last"}"# } ?? ""
    let signed = try signed ?? self.signed()
    return #"{"identityKey":"\#(identity.publicKey)","preKeys":[\#(keys)],"signedPreKey":\#(signed)\#(last)}"#
  }
}

extension RelayProcess {
  /// Uploads keys of version 2.
  func upload(_ keys: SignedKeys, _ ids: [Int], lastResort: Int? = 16_777_215, as device: TestDevice) async throws {
    let answer = try await send("PUT", "/v2/keys", json: try keys.upload(ids, lastResort: lastResort), as: device)
    guard answer.status == 200 else { throw TestFailure("no keys uploaded: \(answer.status) \(answer.text)") }
  }
}
