import Foundation
import RelayCore

/// The answers by which a relay is set up.
struct InitPlan {
  /// How codes reach people.
  enum Codes: String {
    case log, webhook, twilio
  }

  var name: String
  /// The public host name, for clients and peers.
  var host: String
  /// The certificate chain of the clients' listener; nil where a proxy on this host ends TLS.
  var certificate: String?
  var key: String?
  var clientPort: Int
  /// Nil without peers.
  var federationPort: Int?
  var storage: String
  var redis: String?
  var codes: Codes
  var webhookURL: String?
  var twilioAccount: String?
  var twilioFrom: String?
  var twilioTokenFile: String?
  let folder: String
  let data: String

  var configurationFile: String { "\(folder)/relay.yaml" }
  var unitFile: String { "\(folder)/relay.service" }
  var isEmbedded: Bool { storage.hasPrefix("sqlite:") }

  /// A secret in a file of its own, which its owner alone may read.
  struct SecretFile {
    let key: String
    let name: String
    let text: String
  }

  /// Drawn anew with each call.
  func secrets() -> [SecretFile] {
    var files = [
      SecretFile(
        key: "storage.encryption-key", name: "encryption-key", text: Data(Self.random(32)).base64EncodedString()),
      SecretFile(key: "operator.read-tokens", name: "operator-read-tokens", text: "viewer:\(Self.hex(32))"),
      SecretFile(key: "operator.change-tokens", name: "operator-change-tokens", text: "admin:\(Self.hex(32))"),
    ]
    if !isEmbedded { files.append(SecretFile(key: "storage.url", name: "storage-url", text: storage)) }
    if let redis { files.append(SecretFile(key: "coordination.url", name: "coordination-url", text: redis)) }
    if codes == .webhook {
      files.append(SecretFile(key: "verification.webhook.secret", name: "webhook-secret", text: Self.hex(32)))
    }
    return files
  }

  /// `relay.yaml`, with secrets in files beside it.
  func configuration(_ secrets: [SecretFile]) -> String {
    func file(_ key: String) -> String? { secrets.first { $0.key == key }.map { "\(folder)/\($0.name)" } }
    var lines = [
      "# Written by `relay init`. docs/configuration.md explains every key; `relay check` prints what holds.",
      "name: \(Self.scalar(name))",
    ]
    lines += clients
    lines += ["", "operator:", "  host: 127.0.0.1", "  port: 8081"]
    for key in ["operator.read-tokens", "operator.change-tokens"] {
      if let path = file(key) { lines.append("  \(key.split(separator: ".")[1])-file: \(Self.scalar(path))") }
    }
    lines += stores(file)
    if let path = file("coordination.url") { lines += ["", "coordination:", "  url-file: \(Self.scalar(path))"] }
    lines += ["", "attachments:", "  url: \(Self.scalar("file:\(data)/attachments"))"]
    lines.append("  public-url: \(Self.scalar(publicURL))")
    lines += ["", "directory:", "  snapshot: \(Self.scalar("\(data)/directory.snapshot"))"]
    if let federationPort {
      lines += [
        "", "federation:", "  port: \(federationPort)", "  url: https://\(host):\(federationPort)",
        "  directory: \(Self.scalar("\(data)/federation"))",
      ]
    }
    return (lines + verification(file)).joined(separator: "\n") + "\n"
  }

  private var clients: [String] {
    guard let certificate, let key else {
      return [
        "", "client:", "  # A proxy on this host ends TLS for https://\(host).", "  host: 127.0.0.1",
        "  port: \(clientPort)", "  trusted-proxies: 127.0.0.1",
      ]
    }
    return [
      "", "client:", "  host: 0.0.0.0", "  port: \(clientPort)", "  tls:",
      "    certificate: \(Self.scalar(certificate))", "    key: \(Self.scalar(key))",
    ]
  }

  private func stores(_ file: (String) -> String?) -> [String] {
    var lines = ["", "storage:"]
    if let path = file("storage.url") {
      lines += [
        "  url-file: \(Self.scalar(path))", "  # One process at a time runs the steps of the schema.",
        "  migrate: true",
      ]
    } else {
      lines.append("  url: \(Self.scalar(storage))")
    }
    if let path = file("storage.encryption-key") { lines.append("  encryption-key-file: \(Self.scalar(path))") }
    return lines
  }

  private var publicURL: String {
    certificate == nil || clientPort == 443 ? "https://\(host)" : "https://\(host):\(clientPort)"
  }

  private func verification(_ file: (String) -> String?) -> [String] {
    let head = ["", "verification:"]
    switch codes {
    case .log:
      return head + [
        "  # Codes go to the log, for whoever runs the relay. Set webhook or twilio for people.", "  sender: log",
      ]
    case .webhook:
      return head + [
        "  sender: webhook", "  webhook:", "    url: \(Self.scalar(webhookURL ?? ""))",
        "    secret-file: \(Self.scalar(file("verification.webhook.secret") ?? ""))",
      ]
    case .twilio:
      return head + [
        "  sender: twilio", "  twilio:", "    account: \(Self.scalar(twilioAccount ?? ""))",
        "    from: \(Self.scalar(twilioFrom ?? ""))", "    token-file: \(Self.scalar(twilioTokenFile ?? ""))",
      ]
    }
  }

  /// A YAML scalar: as it is where that is safe, else in double quotes.
  private static func scalar(_ text: String) -> String {
    let isPlain = !text.isEmpty && text.first?.isLetter == true || text.first == "/"
    let plain = text.allSatisfy { ($0.isASCII && ($0.isLetter || $0.isNumber)) || "/-_.".contains($0) }
    if isPlain, plain, !["true", "false", "null", "yes", "no", "on", "off"].contains(text.lowercased()) { return text }
    let escaped = text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    return "\"\(escaped)\""
  }

  private static func random(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: .min ... .max) } }
  private static func hex(_ count: Int) -> String {
    random(count).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
