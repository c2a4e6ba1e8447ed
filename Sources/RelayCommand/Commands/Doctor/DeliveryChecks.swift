import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import RelayConfiguration
import RelayCore
import RelayHTTP

/// Checks the delivery to people: verification codes.
struct DeliveryChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    [DoctorCheck(group: .verification, name: "sender") { [await sender()] }]
  }

  private func sender() async -> Finding {
    switch site.settings.verification.sender {
    case .log:
      .warned(
        "codes go to the log: nobody can register by phone",
        remedy: "Set verification.sender to twilio or webhook where people are.")
    case .webhook(let url, _):
      await Self.ask(
        url, method: .HEAD, "codes go to \(url.host)", remedy: "Start it, or correct verification.webhook.url.")
    case .twilio(let account, let token, _, let url):
      await Self.askTwilio(account, token, at: url)
    }
  }

  /// Without a code: whether somebody answers at all.
  private static func ask(
    _ url: WebURL, method: HTTPMethod, _ text: String, remedy: String
  ) async -> Finding {
    var request = HTTPClientRequest(url: url.text)
    request.method = method
    do {
      let status = Int(try await HTTPClient.shared.execute(request, timeout: timeout).status.code)
      // 501 is the answer of a server that knows no HEAD.
      guard status < 500 || status == 501 else { return .failed("\(text), which answers \(status)", remedy: remedy) }
      return .ok("\(text), which answers")
    } catch {
      return .failed("\(text), which does not answer: \(FaultWords.of(error))", remedy: remedy)
    }
  }

  /// Reads the account, by which Twilio tells whether the token is right.
  private static func askTwilio(_ account: String, _ token: Secret, at url: WebURL) async -> Finding {
    var request = HTTPClientRequest(url: "\(url.text)/2010-04-01/Accounts/\(account).json")
    request.setBasicAuth(username: account, password: token.value)
    let text = "codes go out by Twilio, at \(url.host)"
    do {
      switch Int(try await HTTPClient.shared.execute(request, timeout: timeout).status.code) {
      case 200..<300: return .ok("\(text), which knows the account")
      case 401, 403:
        return .failed(
          "\(text), which refuses the account or its token",
          remedy: "Correct verification.twilio.account and verification.twilio.token.")
      case 404: return .failed("\(text), which has no such account", remedy: "Correct verification.twilio.account.")
      case let status:
        return .failed("\(text), which answers \(status)", remedy: "Try again, and see Twilio's own state.")
      }
    } catch {
      return .failed(
        "\(text), which does not answer: \(FaultWords.of(error))",
        remedy: "Correct verification.twilio.url, or open the way there.")
    }
  }

  private static let timeout = TimeAmount.seconds(5)
}
