package import RelayCore

extension RelayConfiguration {
  package struct Verification: Sendable, Equatable {
    package let sender: Sender
    /// nil: no number tokens.
    package let tokenKey: SecretBytes?

    package enum Sender: Sendable, Equatable {
      case log
      case webhook(url: WebURL, secret: Secret)
      case twilio(account: String, token: Secret, from: String, url: WebURL)

      /// The key or token that this sender proves itself with, if it is `other`: of the same kind, at the same place. A
      /// secret goes to nobody else.
      package func secret(as other: Self) -> Secret? {
        switch (self, other) {
        case (.webhook(let url, let secret), .webhook(let place, _)): url == place ? secret : nil
        case (.twilio(let account, let token, _, let url), .twilio(let name, _, _, let place)):
          account == name && url == place ? token : nil
        default: nil
        }
      }
    }

    init(_ keys: inout ConfigurationReader) {
      sender = Sender(&keys)
      tokenKey = keys.optional(
        "verification.token-key", .hexKey, secrecy: .secret,
        "Hex of 16 random bytes or more, the key that number tokens are made with; without it there are none.")
    }
  }
}

extension RelayConfiguration.Verification.Sender {
  /// `.log` where the chosen sender lacks something, which is a fault.
  init(_ keys: inout ConfigurationReader) {
    let chosen = keys.value(
      "verification.sender", .choice(VerificationSender.self), default: "log",
      "How verification codes are sent; `log` writes them to the log, for trying things out.")
    let url = keys.optional("verification.webhook.url", .webURL, "Where the sender `webhook` posts codes.")
    let secret = keys.optional(
      "verification.webhook.secret", .secret, secrecy: .secret, taking: .onReload,
      "The key that its requests are signed with: `X-Relay-Signature` is the lower-case hex of HMAC-SHA256 of the body."
    )
    let account = keys.optional("verification.twilio.account", .text, "Account SID.")
    let token = keys.optional(
      "verification.twilio.token", .secret, secrecy: .secret, taking: .onReload, "Auth token of the account.")
    let from = keys.optional("verification.twilio.from", .text, "The number or service that codes come from.")
    let twilioURL = keys.value(
      "verification.twilio.url", .webURL, default: "https://api.twilio.com", "Where Twilio's REST API is.")

    let needed: [String]
    switch chosen {
    case .log:
      self = .log
      needed = []
    case .webhook:
      self = if let url, let secret { .webhook(url: url, secret: secret) } else { .log }
      needed = ["verification.webhook.url", "verification.webhook.secret"]
    case .twilio:
      self =
        if let account, let token, let from {
          .twilio(account: account, token: token, from: from, url: twilioURL)
        } else { .log }
      needed = ["verification.twilio.account", "verification.twilio.token", "verification.twilio.from"]
    }
    for name in needed {
      keys.miss(name, because: "verification.sender is \(chosen.rawValue)", of: "verification.sender")
    }
  }
}

enum VerificationSender: String, Sendable, CaseIterable { case log, webhook, twilio }
