package import AsyncHTTPClient
package import Logging
import NIOCore
import NIOHTTP1
package import RelayCore
import RelayHTTP

/// Sends codes through Twilio's REST API: a text message, or a call that reads the digits aloud.
package struct TwilioSender: VerificationSender {
  private let account: String
  private let token: @Sendable () -> Secret
  private let from: String
  private let origin: String
  private let client: HTTPClient
  private let logger: Logger

  /// - Parameters:
  ///   - token: asked for with each code: it may change.
  ///   - origin: where the API is; tests hand in their own.
  package init(
    account: String, token: @autoclosure @escaping @Sendable () -> Secret, from: String,
    origin: String = "https://api.twilio.com", client: HTTPClient, logger: Logger
  ) {
    self.account = account
    self.token = token
    self.from = from
    self.origin = origin
    self.client = client
    self.logger = logger
  }

  package func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) async throws(Problem)
  {
    var request = HTTPClientRequest(url: "\(origin)/2010-04-01/Accounts/\(account)/\(resource(transport)).json")
    request.method = .POST
    request.headers.add(name: "Content-Type", value: "application/x-www-form-urlencoded")
    request.headers.add(
      name: "Authorization", value: "Basic " + Base64.encode(Array("\(account):\(token().value)".utf8), padded: true))
    let fields = [("To", number.e164), ("From", from), try content(code, transport)]
    let form = fields.map { "\($0)=\(Self.formEncoded($1))" }.joined(separator: "&")
    request.body = .bytes(ByteBuffer(string: form))
    do {
      let response = try await client.execute(request, timeout: .seconds(10))
      switch GatewayAnswer(status: Int(response.status.code)) {
      case .taken: return
      case .refused:
        return logger.warning(
          "Twilio refused a code, which is not sent",
          metadata: ["status": "\(response.status.code)", "transport": "\(transport.rawValue)"])
      case .trouble:
        logger.warning("Twilio failed", metadata: ["status": "\(response.status.code)"])
        throw Problem(.unavailable, retryAfter: .seconds(30))
      }
    } catch let problem as Problem {
      throw problem
    } catch {
      let reason = (error as? HTTPClientError)?.shortDescription ?? FaultWords.brief(error)
      logger.warning("Twilio cannot be reached", metadata: ["error": "\(reason)"])
      throw Problem(.unavailable, retryAfter: .seconds(30))
    }
  }

  private func resource(_ transport: VerificationTransport) -> String {
    switch transport {
    case .sms: "Messages"
    case .voice: "Calls"
    }
  }

  private func content(_ code: Secret, _ transport: VerificationTransport) throws(Problem) -> (String, String) {
    switch transport {
    case .sms: return ("Body", "Your verification code: \(code.value)")
    case .voice:
      guard let twiml = VerificationCodes.twiml(code) else { throw Problem(.internalError, reason: "no code to speak") }
      return ("Twiml", twiml)
    }
  }

  private static func formEncoded(_ text: String) -> String {
    text.utf8.map { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: return String(UnicodeScalar(byte))
      default: return "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }.joined()
  }
}
