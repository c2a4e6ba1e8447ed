package import AsyncHTTPClient
import Crypto
package import Logging
import NIOCore
import NIOHTTP1
package import RelayCore

/// How a verification code travels.
package enum VerificationTransport: String, Sendable {
  case sms, voice
}

/// Brings a verification code to the holder of a number.
package protocol VerificationSender: Sendable {
  /// - Throws: `.unavailable` when the code may not have been sent.
  func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) async throws(Problem)
}

/// Writes the code to the log, for first steps without a carrier. Never the number: whoever asked knows it.
package struct LogSender: VerificationSender {
  private let logger: Logger

  package init(logger: Logger) { self.logger = logger }

  package func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) {
    logger.notice(
      "verification code \(code.value) (verification.sender is log; set webhook to send it for real)",
      metadata: ["transport": "\(transport.rawValue)"])
  }
}

/// POSTs `{"number","transport","code"}` to a URL of the operator's, signed.
///
/// `X-Relay-Signature` holds the lower-case hex of HMAC-SHA256 of the body under the configured secret.
package struct WebhookSender: VerificationSender {
  private let url: String
  private let secret: Secret
  private let client: HTTPClient
  private let logger: Logger

  package init(url: String, secret: Secret, client: HTTPClient, logger: Logger) {
    self.url = url
    self.secret = secret
    self.client = client
    self.logger = logger
  }

  package func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) async throws(Problem)
  {
    let body = Self.body(code, number, transport)
    var request = HTTPClientRequest(url: url)
    request.method = .POST
    request.headers.add(name: "Content-Type", value: "application/json")
    request.headers.add(name: "X-Relay-Signature", value: signature(of: body))
    request.body = .bytes(ByteBuffer(bytes: body))
    do {
      let response = try await client.execute(request, timeout: Self.timeout)
      guard (200..<300).contains(Int(response.status.code)) else {
        logger.warning("verification webhook refused", metadata: ["status": "\(response.status.code)"])
        throw Problem(.unavailable, retryAfter: .seconds(30))
      }
    } catch let problem as Problem {
      throw problem
    } catch {
      logger.warning("verification webhook failed", metadata: ["error": "\(type(of: error))"])
      throw Problem(.unavailable, retryAfter: .seconds(30))
    }
  }

  private static let timeout = TimeAmount.seconds(10)

  private static func body(_ code: Secret, _ number: AccountNumber, _ transport: VerificationTransport) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("number")
    writer.string(number.e164)
    writer.key("transport")
    writer.string(transport.rawValue)
    writer.key("code")
    writer.string(code.value)
    writer.endObject()
    return writer.bytes
  }

  private func signature(of body: [UInt8]) -> String {
    let code = HMAC<SHA256>.authenticationCode(for: body, using: SymmetricKey(data: Array(secret.value.utf8)))
    return code.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
