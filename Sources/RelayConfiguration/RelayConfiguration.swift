package import RelayCore

/// Everything an operator decides, read once at start. docs/configuration.md explains each key.
///
/// A section stands in a file of its own, `RelayConfiguration+NAME.swift`. Its initialiser reads each of its keys,
/// with everything that is said of the key: name, type, bounds, default, meaning, secrecy, and whether a running
/// process takes a change. A faulty value is noted by the reader and stands at its default, so that the pass goes on;
/// the result is used only when there was no fault.
///
/// A new key is a field here, a row of docs/configuration.md, which `DocumentTests` prints, and its use.
package struct RelayConfiguration: Sendable, Equatable {
  package let name: RelayName
  let allowedInsecurities: Set<Insecurity>
  package let roles: Roles
  package let client: Client
  package let federation: Federation
  package let operations: Operations
  package let storage: Storage
  package let coordination: Coordination
  package let attachments: Attachments
  package let messages: Messages
  package let keys: PreKeys
  package let verification: Verification
  package let directory: Directory
  package let push: Push
  package let pushGateway: PushGateway
  package let deviceNotifications: DeviceNotifications
  package let development: Development
  package let drain: Drain
  /// Has every limiter.
  package let limits: [LimiterName: Bucket]
  package let log: Log

  init(_ keys: inout ConfigurationReader, _ readers: TreeReaders) {
    name = keys.value(
      "name", .relayName, default: "local",
      "This operator's relay name, as peers know it: 1 to 63 of `a-z 0-9 - _ .`, beginning with a letter or digit.")
    allowedInsecurities = keys.value(
      "allow-insecure", .insecurities, default: "none",
      "Settings that are meant although the internet can reach what is not safe there: `plain-http`, "
        + "`operator-listener`, `log-sender`, `development`, comma-separated.")
    roles = keys.value(
      "roles", .roles, default: "all",
      "The parts of the work that this process has: `all`, or some of `clients`, `peers`, `push`, `directory`, "
        + "comma-separated. `relay serve --roles` goes before it.")
    client = Client(&keys)
    federation = Federation(&keys)
    operations = Operations(&keys)
    storage = Storage(&keys)
    coordination = Coordination(&keys)
    attachments = Attachments(&keys, of: name)
    messages = Messages(&keys)
    self.keys = PreKeys(&keys)
    verification = Verification(&keys)
    directory = Directory(&keys)
    push = Push(&keys)
    pushGateway = PushGateway(&keys, readers)
    deviceNotifications = DeviceNotifications(&keys)
    development = Development(&keys)
    drain = Drain(&keys)
    limits = Dictionary(uniqueKeysWithValues: LimiterName.allCases.map { ($0, $0.bucket(&keys)) })
    log = Log(&keys)
  }

  package struct Development: Sendable, Equatable {
    package let isEnabled: Bool

    init(_ keys: inout ConfigurationReader) {
      isEnabled = keys.value(
        "development.enabled", .boolean, default: "false",
        "Adds the transport `dev`, which returns codes to whoever asks: never where people are.")
    }
  }

  package struct Drain: Sendable, Equatable {
    /// Over which WebSockets are closed.
    package let window: Duration

    init(_ keys: inout ConfigurationReader) {
      window = keys.value(
        "drain.seconds", .whole(0...3600, of: .seconds(1)), default: "10",
        "How long a process that stops takes over closing its WebSockets, so that their clients do not come back all at "
          + "once.")
    }
  }

  package struct Log: Sendable, Equatable {
    package let level: LogLevel
    package let format: LogFormat

    init(_ keys: inout ConfigurationReader) {
      level = keys.value(
        "log.level", .choice(LogLevel.self), default: "info", taking: .onReload, "The least level that is logged.")
      format = keys.value(
        "log.format", .choice(LogFormat.self), default: "text", "The form of log lines, which go to standard error.")
    }
  }

  /// PEM files.
  package struct TLS: Sendable, Equatable {
    package let certificate: String
    package let key: String

    /// - Returns: nil where nothing is given, or half of it, which is a fault.
    init?(_ keys: inout ConfigurationReader, below section: String) {
      let names = (certificate: "\(section).certificate", key: "\(section).key")
      let certificate = keys.optional(
        names.certificate, .path, "PEM certificate chain of the listener; reloaded when the file changes.")
      let key = keys.optional(names.key, .path, "PEM private key to it; reloaded when the file changes.")
      keys.pair(names.certificate, names.key)
      guard let certificate, let key else { return nil }
      (self.certificate, self.key) = (certificate, key)
    }
  }
}

package enum LogLevel: String, Sendable, CaseIterable { case trace, debug, info, notice, warning, error, critical }
package enum LogFormat: String, Sendable, CaseIterable { case text, json }

extension LimiterName {
  /// Its bucket; the default one where the configuration has no say.
  fileprivate func bucket(_ keys: inout ConfigurationReader) -> Bucket {
    guard let meaning else { return defaultBucket }
    let size = keys.value(
      "limits.\(rawValue).size", .whole(1...1_000_000_000), default: String(Int(defaultBucket.size)),
      taking: .onReload, meaning)
    let perMinute = keys.value(
      "limits.\(rawValue).per-minute", .decimal(0...1_000_000_000), default: DecimalText.text(defaultBucket.perMinute),
      taking: .onReload, "Charges that come back each minute.")
    return Bucket(size: Double(size), perMinute: perMinute)
  }
}

extension ConfigurationReader {
  /// Each of the two needs the other.
  mutating func pair(_ one: String, _ other: String) {
    if isGiven(one) { miss(other, because: "\(one) is given", of: one) }
    if isGiven(other) { miss(one, because: "\(other) is given", of: other) }
  }
}
