package import AsyncHTTPClient
import Crypto
package import Logging
import NIOCore
import NIOHTTP1
package import RelayCore
import RelayHTTP

/// How a verification code travels.
package enum VerificationTransport: String, Sendable {
  case sms, voice
}

/// Brings a verification code to the holder of a number.
package protocol VerificationSender: Sendable {
  /// A gateway that refuses this code is the log's matter and not the client's, which could do nothing but ask again
  /// (reference 1.4).
  /// - Throws: `.unavailable` when the gateway is in trouble, and another try may do.
  func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) async throws(Problem)
}

/// The meaning of a gateway's status for the code that it was given.
enum GatewayAnswer {
  case taken
  /// This code, or its number, for good: the number is nobody's, or may not be sent to.
  case refused
  /// Our credentials or URL are wrong, or it asks to come again.
  case trouble

  init(status: Int) {
    switch status {
    case 200..<300: self = .taken
    case 401, 404, 405, 407, 408, 425, 429: self = .trouble
    case 400..<500: self = .refused
    default: self = .trouble
    }
  }
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
  private let secret: @Sendable () -> Secret
  private let client: HTTPClient
  private let logger: Logger

  /// - Parameter secret: asked for with each code: it may change.
  package init(
    url: String, secret: @autoclosure @escaping @Sendable () -> Secret, client: HTTPClient, logger: Logger
  ) {
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
      switch GatewayAnswer(status: Int(response.status.code)) {
      case .taken: return
      case .refused:
        return logger.warning(
          "the verification webhook refused a code, which is not sent",
          metadata: ["status": "\(response.status.code)", "transport": "\(transport.rawValue)"])
      case .trouble:
        logger.warning("verification webhook failed", metadata: ["status": "\(response.status.code)"])
        throw Problem(.unavailable, retryAfter: .seconds(30))
      }
    } catch let problem as Problem {
      throw problem
    } catch {
      let reason = (error as? HTTPClientError)?.shortDescription ?? FaultWords.brief(error)
      logger.warning("verification webhook failed", metadata: ["error": "\(reason)"])
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
    let code = HMAC<SHA256>.authenticationCode(for: body, using: SymmetricKey(data: Array(secret().value.utf8)))
    return code.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}

/// Codes by which numbers are proved and devices linked (reference 1.4, 1.14).
enum VerificationCodes {
  /// Uniform over 100000...999999: six digits, never a leading zero.
  static func draw() -> Secret {
    var generator = SystemRandomNumberGenerator()
    return Secret(String(Int.random(in: 100_000...999_999, using: &generator)))
  }

  /// `ddd-ddd`, as people read it.
  static func displayed(_ code: Secret) -> Secret { Secret("\(code.value.prefix(3))-\(code.value.suffix(3))") }

  /// The text that a voice gateway reads aloud: the digits one by one, three times (reference 1.4).
  /// - Returns: nil unless `code` is six digits, with a hyphen in the middle or not. Nothing else may get into the
  ///   XML (reference Part 6, 21).
  static func twiml(_ code: Secret) -> String? {
    var digits = Array(code.value.utf8)
    if digits.count == 7, digits[3] == UInt8(ascii: "-") { digits.remove(at: 3) }
    guard digits.count == 6, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    let spoken = digits.map { String(UnicodeScalar($0)) }.joined(separator: ", ")
    return "<Response><Say loop=\"3\">Your verification code is: \(spoken).</Say></Response>"
  }
}
