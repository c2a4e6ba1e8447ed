import AsyncHTTPClient
import Logging
import Relay
import RelayCore
import Testing

/// Twilio's REST API as the relay speaks it, to a local server that keeps what it was asked.
@Suite struct TwilioSenderTests {
  @Test func `a text carries credentials, numbers and the displayed code`() async throws {
    let request = try await sent(by: .sms)
    #expect(request.requestLine == "POST /2010-04-01/Accounts/AC1/Messages.json HTTP/1.1")
    #expect(request.headers["authorization"] == "Basic " + Base64.encode(Array("AC1:t0ken".utf8), padded: true))
    #expect(request.headers["content-type"] == "application/x-www-form-urlencoded")
    #expect(request.body == "To=%2B14155550100&From=%2B14155550199&Body=Your%20verification%20code%3A%20123-456")
  }

  @Test func `a call reads the digits one by one`() async throws {
    let request = try await sent(by: .voice)
    #expect(request.requestLine == "POST /2010-04-01/Accounts/AC1/Calls.json HTTP/1.1")
    #expect(request.body.contains("&Twiml=%3CResponse%3E%3CSay%20loop%3D%223%22%3E"))
    #expect(request.body.contains("1%2C%202%2C%203%2C%204%2C%205%2C%206"))
  }

  @Test func `a refusal is said to be unavailable`() async throws {
    let problem = await #expect(throws: Problem.self) { try await sent(by: .sms, answeredWith: 401) }
    #expect(problem?.kind == .unavailable)
    #expect(problem?.retryAfter != nil)
  }

  private func sent(by transport: VerificationTransport, answeredWith status: Int = 201) async throws
    -> WebhookServer.Received
  {
    let server = try WebhookServer()
    defer { server.close() }
    server.answer(with: status)
    let sender = TwilioSender(
      account: "AC1", token: Secret("t0ken"), from: "+14155550199", origin: "http://127.0.0.1:\(server.port)",
      client: .shared, logger: Logger(label: "test"))
    let number = try #require(AccountNumber(e164: "+14155550100"))
    try await sender.send(Secret("123-456"), to: number, by: transport)
    return try #require(server.received.first)
  }
}
