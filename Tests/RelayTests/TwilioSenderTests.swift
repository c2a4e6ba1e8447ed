import AsyncHTTPClient
import ChildProcesses
import Logging
import Relay
import RelayCore
import TestSupport
import TestTags
import Testing

/// Twilio's REST API as the relay speaks it, to a local server that keeps what it was asked.
@Suite(.tags(.processes)) struct TwilioSenderTests {
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

  @Test func `a code that is refused is not the client's matter`() async throws {
    for status in [400, 403] { _ = try await sent(by: .sms, answeredWith: status) }
  }

  @Test(arguments: [401, 429, 500]) func `trouble is said to be unavailable`(status: Int) async throws {
    let problem = await #expect(throws: Problem.self) { try await sent(by: .sms, answeredWith: status) }
    #expect(problem?.kind == .unavailable)
    #expect(problem?.retryAfter != nil)
  }

  @Test func `a relay that is told to sends its codes there`() async throws {
    let server = try WebhookServer()
    defer { server.close() }
    let settings = [
      "RELAY_VERIFICATION_SENDER": "twilio", "RELAY_VERIFICATION_TWILIO_ACCOUNT": "AC1",
      "RELAY_VERIFICATION_TWILIO_TOKEN": "t0ken-that-nobody-sees", "RELAY_VERIFICATION_TWILIO_FROM": "+14155550199",
      "RELAY_VERIFICATION_TWILIO_URL": "http://127.0.0.1:\(server.port)/twilio/",
    ]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      for (transport, resource) in [("sms", "Messages"), ("voice", "Calls")] {
        server.answer(with: 201)
        let number = TestDevice.freshNumber()
        #expect(try await relay.send("GET", "/v1/accounts/\(transport)/code/\(number)").status == 200)
        let request = try #require(server.received.last)
        #expect(request.requestLine == "POST /twilio/2010-04-01/Accounts/AC1/\(resource).json HTTP/1.1")
        let credentials = Base64.encode(Array("AC1:t0ken-that-nobody-sees".utf8), padded: true)
        #expect(request.headers["authorization"] == "Basic " + credentials)
        #expect(request.body.contains("To=%2B\(number.dropFirst())&From=%2B14155550199&"))
        // The code that it was sent registers.
        let code = try #require(request.body.split(separator: "code").last).replacing(/%[0-9A-F]{2}/, with: "")
        let device = TestDevice(number: number, password: "p")
        let confirmed = try await relay.send(
          "PUT", "/v1/accounts/code/\(code.filter(\.isNumber).prefix(6))", json: #"{"signalingKey":"c2ln"}"#, as: device
        )
        #expect(confirmed.status == 200)

        server.answer(with: 429)
        let refused = try await relay.send("GET", "/v1/accounts/\(transport)/code/\(TestDevice.freshNumber())")
        #expect(refused.status == 503)
        #expect(refused.headers["retry-after"] != nil)
      }
      for secret in ["t0ken", "4155550199"] { #expect(!relay.log().contains(secret)) }
      #expect(await relay.terminate() == .code(0))
    }
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
