// A push service of browsers, and the browser behind it that reads what comes.

package import Crypto
import Foundation
package import RelayCore
import Synchronization

/// A subscription with its private half.
package struct TestSubscription: Sendable {
  package let endpoint: String
  /// base64url, as browsers give it.
  package let p256dh: String
  package let auth: String
  fileprivate let key: P256.KeyAgreement.PrivateKey
  fileprivate let secret: [UInt8]

  package init(endpoint: String, key: P256.KeyAgreement.PrivateKey = .init(), secret: [UInt8]? = nil) {
    self.endpoint = endpoint
    self.key = key
    self.secret = secret ?? (0..<16).map { _ in UInt8.random(in: 0...255) }
    p256dh = Base64.encodeURLSafe(Array(key.publicKey.x963Representation))
    auth = Base64.encodeURLSafe(self.secret)
  }

  /// Decrypts one record of `aes128gcm` by the letter of RFC 8188 and RFC 8291, from HMAC up.
  package func decrypt(_ body: [UInt8]) throws -> [UInt8] {
    guard body.count > 86 + 17, body[20] == 65 else { throw TestFailure("no record") }
    let salt = Array(body[..<16])
    let size = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
    let sender = Array(body[21..<86])
    let record = Array(body[86...])
    guard size >= 18, record.count <= size else { throw TestFailure("more than one record") }
    let shared = try key.sharedSecretFromKeyAgreement(with: P256.KeyAgreement.PublicKey(x963Representation: sender))
    let first = Self.hmac(secret, shared.withUnsafeBytes { Array($0) })
    let info = Array("WebPush: info\0".utf8) + Array(key.publicKey.x963Representation) + sender
    let material = Self.hmac(first, info + [1])
    let second = Self.hmac(salt, material)
    let contentKey = Self.hmac(second, Array("Content-Encoding: aes128gcm\0".utf8) + [1]).prefix(16)
    let nonce = Self.hmac(second, Array("Content-Encoding: nonce\0".utf8) + [1]).prefix(12)
    let box = try AES.GCM.SealedBox(
      nonce: AES.GCM.Nonce(data: nonce), ciphertext: record.dropLast(16), tag: record.suffix(16))
    var plain = Array(try AES.GCM.open(box, using: SymmetricKey(data: contentKey)))
    while plain.last == 0 { plain.removeLast() }
    guard plain.popLast() == 2 else { throw TestFailure("not the last record") }
    return plain
  }

  private static func hmac(_ key: [UInt8], _ data: [UInt8]) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: data, using: SymmetricKey(data: key)))
  }
}

/// Verifies each request as push services do, decrypts it, and remembers it.
package final class FakeWebPush: Sendable {
  fileprivate struct State {
    var key: P256.Signing.PublicKey
    var origin = ""
    var subscriptions: [String: TestSubscription] = [:]
    var messages: [String] = []
    var tokens: [TestToken] = []
    var faults: [String] = []
    var now: @Sendable () -> Timestamp = { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }
  }

  fileprivate final class Checks: Sendable {
    private let state: Mutex<State>
    init(key: P256.Signing.PublicKey) { state = Mutex(State(key: key)) }

    fileprivate func withLock<Value: Sendable>(_ body: @Sendable (inout sending State) -> Value) -> Value {
      state.withLock { body(&$0) }
    }
  }

  package let service: FakeService
  private let checks: Checks

  /// - Parameter key: the application's, which verifies its tokens.
  package init(_ files: PushFiles, key: P256.Signing.PublicKey) async throws {
    let checks = Checks(key: key)
    self.checks = checks
    service = try await FakeService(
      files, usual: { _ in .answer(201) }, check: { checks.fault(of: $0) })
    let origin = url
    checks.withLock { $0.origin = origin }
  }

  /// By its address: a name could have others.
  package var url: String { "https://127.0.0.1:\(service.port)" }
  package var requests: [FakeRequest] { service.requests }
  /// The messages that came, decrypted, in order.
  package var messages: [String] { checks.withLock { $0.messages } }
  /// The different VAPID tokens, in order.
  package var tokens: [TestToken] { checks.withLock { $0.tokens } }
  package var faults: [String] { checks.withLock { $0.faults } }

  package func subscribe(_ path: String = "/push/\(UUID().uuidString)", subscription: TestSubscription? = nil)
    -> TestSubscription
  {
    let made = subscription ?? TestSubscription(endpoint: url + path)
    checks.withLock { $0.subscriptions[path] = made }
    return made
  }
  /// From now on tokens of `key` are taken, and of no other.
  package func trust(_ key: P256.Signing.PublicKey) { checks.withLock { $0.key = key } }
  /// How the application knows this service, where that is not `url`.
  package func isKnown(as origin: String) { checks.withLock { $0.origin = origin } }
  package func tell(now: @escaping @Sendable () -> Timestamp) { checks.withLock { $0.now = now } }
  package func close() async throws { try await service.close() }
}

extension FakeWebPush.Checks {
  fileprivate func fault(of request: FakeRequest) -> FakeAnswer? {
    guard let (status, note) = check(request) else { return nil }
    withLock { $0.faults.append(note) }
    return .answer(status, note)
  }

  private func check(_ request: FakeRequest) -> (Int, String)? {
    guard request.method == "POST" else { return (405, "method") }
    guard let subscription = withLock({ $0.subscriptions[request.path] }) else { return (404, "no subscription") }
    guard request.headers["content-encoding"] == "aes128gcm" else { return (400, "content encoding") }
    guard let life = request.headers["ttl"].flatMap({ Int($0) }), life >= 0 else { return (400, "TTL") }
    guard ["very-low", "low", "normal", "high"].contains(request.headers["urgency"]) else { return (400, "urgency") }
    if let topic = request.headers["topic"], !Self.isTopic(topic) { return (400, "topic") }
    guard request.body.count <= 4096 else { return (413, "\(request.body.count) bytes") }
    if let fault = checkToken(request.headers["authorization"]) { return fault }
    do {
      let text = String(decoding: try subscription.decrypt(request.body), as: UTF8.self)
      withLock { $0.messages.append(text) }
      return nil
    } catch {
      return (400, "it cannot be decrypted: \(error)")
    }
  }

  private func checkToken(_ authorization: String?) -> (Int, String)? {
    guard let authorization, authorization.hasPrefix("vapid ") else { return (401, "no token") }
    var parts: [String: String] = [:]
    for part in authorization.dropFirst("vapid ".count).split(separator: ",") {
      let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
      if pair.count == 2 { parts[String(pair[0])] = String(pair[1]) }
    }
    return withLock { [parts] state in
      guard parts["k"] == Base64.encodeURLSafe(Array(state.key.x963Representation)) else { return (403, "other key") }
      // A text that is no token fails as one.
      guard let text = parts["t"], let token = try? TestToken(text), token.isSigned(by: state.key),
        token.header["typ"] == "JWT", token.header.count == 2
      else { return (403, "signature") }
      guard token.texts["aud"] == state.origin else { return (403, "audience") }
      guard let contact = token.texts["sub"], contact.hasPrefix("mailto:") || contact.hasPrefix("https:") else {
        return (403, "contact")
      }
      let left = (token.numbers["exp"] ?? 0) - state.now().millis / 1000
      guard left > 0, left <= 24 * 3600 else { return (403, "the token ends in \(left) seconds") }
      if state.tokens.last != token { state.tokens.append(token) }
      return nil
    }
  }

  private static func isTopic(_ text: String) -> Bool {
    (1...32).contains(text.utf8.count)
      && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
  }
}
