import Foundation
import RelayCore
import TestTags
import Testing

@testable import RelayConfiguration

@Suite(.tags(.unit)) struct LoadingTests {
  @Test func `without file and environment the defaults make an embedded relay on loopback`() throws {
    let loaded = try RelayConfiguration.load(file: nil, environment: ["PATH": "/bin"])
    let configuration = loaded.configuration
    #expect(configuration.name == RelayName("local"))
    #expect(configuration.roles == .all && configuration.roles.missing.isEmpty)
    let client = configuration.client
    #expect(client.host == "127.0.0.1" && client.port == 8080 && client.tls == nil)
    #expect(client.trustedProxies.isEmpty && client.origins == .unsaid && client.connectionsMax == 20_000)
    #expect(client.webSockets.loginDialect == .protobuf && client.webSockets.idle == .seconds(90))
    #expect(configuration.drain.window == .seconds(10))
    let operations = configuration.operations
    #expect(operations.host == "127.0.0.1" && operations.port == 8081)
    #expect(operations.readTokens.isEmpty && operations.changeTokens.isEmpty)
    #expect(configuration.federation.host == "127.0.0.1")
    #expect(configuration.federation.port == nil && configuration.federation.url == nil)
    #expect(configuration.federation.directoryInterval == .seconds(2))
    #expect(configuration.storage.location == .sqlite(path: "relay-data/relay.sqlite"))
    #expect(configuration.storage.migratesAtStart)
    #expect(configuration.coordination.location == .local)
    #expect(configuration.attachments.location == .folder(path: "relay-data/attachments"))
    #expect(configuration.storage.encryptionKey == nil && configuration.storage.formerEncryptionKey == nil)
    #expect(configuration.attachments.retention == .seconds(30 * 86_400))
    #expect(configuration.attachments.bytesMax == 100 << 20 && configuration.attachments.accountBytesMax == 1 << 30)
    let messages = configuration.messages
    #expect(messages.retention == .seconds(30 * 86_400) && messages.pollInterval == .seconds(25))
    #expect(messages.steadyPollInterval == .seconds(600))
    #expect(messages.mailboxMax == 5000 && messages.mailboxSenderMax == 2000)
    #expect(configuration.keys.verifiesSignatures)
    #expect(configuration.directory.allowance == LookUpAllowance(first: 20_000, firstDays: 10, perDay: 2000))
    #expect(configuration.verification.sender == .log)
    #expect(configuration.verification.tokenKey == nil)
    let gateway = configuration.pushGateway
    #expect(gateway.host == "127.0.0.1" && gateway.port == nil && gateway.apps == nil)
    let endpoints = configuration.push.endpoints
    #expect(endpoints.apns == nil && endpoints.fcm == nil && endpoints.fcmOAuth == nil && endpoints.trust == nil)
    #expect(!configuration.push.allowsPrivateWebPush && configuration.push.webPushEndpoints == nil)
    #expect(configuration.push.waking.webPush == nil)
    #expect(!configuration.development.isEnabled)
    #expect(configuration.log.level == .info && configuration.log.format == .text)
    #expect(loaded.warnings.isEmpty)
    for limiter in LimiterName.allCases { #expect(configuration.limits[limiter] == limiter.defaultBucket) }
  }

  @Test func `the environment goes before the file, the file before the default, and each is named`() throws {
    let file = try TemporaryFile("client:\n  port: 1001\n  host: 127.0.0.2\n")
    let loaded = try RelayConfiguration.load(file: file.path, environment: ["RELAY_CLIENT_PORT": "1002"])
    #expect(loaded.configuration.client.port == 1002)
    #expect(loaded.configuration.client.host == "127.0.0.2")
    #expect(loaded.configuration.operations.port == 8081)
    #expect(try loaded.setting("client.port").place == .variable("RELAY_CLIENT_PORT"))
    #expect(try loaded.setting("client.port").origin == .environment)
    #expect(try loaded.setting("client.host").place == .file(file.path, line: 3))
    #expect(try loaded.setting("client.host").origin == .file)
    #expect(try loaded.setting("operator.port").origin == .default)
    #expect(try loaded.setting("operator.port").value == "8081")
  }

  @Test func `an empty variable counts as unset`() throws {
    let file = try TemporaryFile("client:\n  port: 1001\n")
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_CLIENT_PORT": "", "RELAY_STORAGE_URL_FILE": "", "RELAY_CONFIG": ""])
    #expect(loaded.configuration.client.port == 1001)
  }

  @Test func `RELAY_CONFIG names the file unless the caller does`() throws {
    let (one, other) = (try TemporaryFile("name: one"), try TemporaryFile("name: other"))
    let environment = ["RELAY_CONFIG": one.path]
    #expect(try RelayConfiguration.load(file: nil, environment: environment).configuration.name.text == "one")
    #expect(try RelayConfiguration.load(file: other.path, environment: environment).configuration.name.text == "other")
  }

  @Test(
    arguments: [
      ("", 8080), ("# nothing\n---\n", 8080), ("client:\n  # port: 1\n", 8080),
      ("client: {port: 1001}", 1001), (#"{"client": {"port": 1001}}"#, 1001),
      ("'client':\n    \"port\" : '1001' # a comment\n", 1001), ("client.port: 1001\n", 1001),
      ("client:\r\n  port: 1001\r\n", 1001),
    ])
  func `empty files, braces, JSON, quotes and dotted keys are all read`(_ text: String, port: Int) throws {
    let file = try TemporaryFile(text)
    #expect(try RelayConfiguration.load(file: file.path, environment: [:]).configuration.client.port == port)
  }

  @Test(arguments: ConfigurationKey.all)
  func `every key is read from its variable and from the file`(_ key: ConfigurationKey) throws {
    let value = Sample.value(of: key)
    #expect(try origin(of: key, file: nil, environment: [key.variable: value]) == .environment)
    let file = try TemporaryFile("\(key.name): \(value)\n")
    #expect(try origin(of: key, file: file.path, environment: [:]) == .file)
  }

  /// - Returns: where the value comes from; nil where it is refused. That other keys are needed beside it is no matter.
  private func origin(
    of key: ConfigurationKey, file: String?, environment: [String: String]
  ) throws -> EffectiveSetting.Origin? {
    let sources = ConfigurationSources(
      file: try file.map { try ConfigurationFile(path: $0) }, environment: environment)
    var reader = ConfigurationReader(sources)
    _ = RelayConfiguration.read(&reader, .none)
    guard !reader.faults.contains(where: { $0.text.contains("expects ") || $0.text.contains("unknown ") }) else {
      return nil
    }
    return reader.effective.first { $0.key == key.name }?.origin
  }

  @Test func `keys that need each other have no fault together`() throws {
    let file = try TemporaryFile(
      """
      client: {tls: {certificate: a.pem, key: a.key}}
      federation: {port: 8443, url: "https://relay.example"}
      storage: {encryption-key: \(Sample.encryptionKey), encryption-key-former: \(Sample.encryptionKey)}
      coordination: {url: "rediss://redis.example", tls: {ca: ca.pem, certificate: b.pem, key: b.key}}
      push:
        apns: {key-file: k.p8, key-id: KEY, team-id: TEAM, topic: com.example.ios}
        fcm: {service-account-file: account.json, project-id: example}
        webpush: {key-file: vapid.pem, contact: "mailto:push@example.org"}
      push-gateway: {port: 5000, apps: {com.example.ios: {type: apns}}}
      device-notifications:
        port: 5001
        tls: {certificate: c.pem, key: c.key}
        apns: {key-file: k.p8, key-id: KEY, team-id: TEAM, topic: com.example.ios}
        fcm: {service-account-file: account.json, project-id: example}
      """)
    let configuration = try RelayConfiguration.load(file: file.path, environment: [:]).configuration
    #expect(configuration.client.tls?.key == "a.key" && configuration.deviceNotifications.tls?.certificate == "c.pem")
    #expect(configuration.push.waking.apns == configuration.deviceNotifications.apns)
    #expect(configuration.push.waking.fcm == configuration.deviceNotifications.fcm)
    #expect(configuration.push.waking.fcm?.projectID == "example")
    #expect(configuration.push.waking.webPush?.contact == "mailto:push@example.org")
  }

  @Test(
    arguments: [
      ("all", ["clients", "peers", "push", "directory"]), ("push", ["push"]),
      ("directory, clients", ["clients", "directory"]), ("[peers, push]", ["peers", "push"]),
      ("push,push", ["push"]),
    ])
  func `roles are all, or some of them in any order`(_ text: String, names: [String]) throws {
    let file = try TemporaryFile("roles: \(text)\n")
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_STORAGE_URL": "postgres://db/relay", "RELAY_COORDINATION_URL": "redis://r"])
    #expect(loaded.configuration.roles.names == names)
    #expect(loaded.warnings.isEmpty, "\(loaded.warnings)")
  }

  @Test func `embedded stores with some roles only are a warning, since no other process can have the rest`() throws {
    let loaded = try RelayConfiguration.load(file: nil, environment: ["RELAY_ROLES": "clients,push"])
    #expect(loaded.warnings.count == 1)
    #expect(loaded.warnings.first?.text.contains("peers, directory to other processes") == true)
  }

  @Test func `a process for peers alone needs their port`() throws {
    #expect(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: nil, environment: ["RELAY_ROLES": "peers"])
    }
    let both = ["RELAY_ROLES": "clients,peers"]
    #expect(throws: Never.self) { try RelayConfiguration.load(file: nil, environment: both) }
  }

  @Test func `listeners that a process does not open may have one port`() throws {
    let ports = ["RELAY_CLIENT_PORT": "7000", "RELAY_OPERATOR_PORT": "7000", "RELAY_ROLES": "push"]
    #expect(throws: Never.self) { try RelayConfiguration.load(file: nil, environment: ports) }
    #expect(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: nil, environment: ports.merging(["RELAY_ROLES": "directory"]) { $1 })
    }
  }

  /// As processes with different roles may share them.
  private static let parts = """
    storage: {url: "postgres://db/relay"}
    coordination: {url: "redis://cache"}
    directory:
      port: 8090
      parts:
        - 1/2=http://10.0.0.1:8090
        - 1/2=http://10.0.0.2:8090
        - 2/2=http://10.0.0.3:8090
    """

  @Test(
    arguments: [
      ("directory", "1/2", false, false), ("directory", "2/2", false, false),
      ("directory,push,peers", "1/2", false, false),
      ("clients,peers,push", "", true, true), ("push", "", false, false),
    ])
  func `one file with parts serves processes of every role`(
    _ roles: String, part: String, listens: Bool, asks: Bool
  ) throws {
    let file = try TemporaryFile(Self.parts)
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_ROLES": roles, "RELAY_DIRECTORY_PARTITION": part])
    #expect(loaded.warnings.isEmpty, "\(loaded.warnings)")
    let configuration = loaded.configuration
    #expect(configuration.directory.partition?.text ?? "" == part)
    #expect(configuration.directory.parts?.map(\.part.text) == ["1/2", "1/2", "2/2"])
    #expect(configuration.listensToClients == listens && configuration.asksParts == asks)
  }

  @Test func `variables are told apart although dots and dashes both become underscores`() {
    let variables = ConfigurationKey.all.flatMap {
      $0.mayComeFromFile ? [$0.variable, $0.fileVariable] : [$0.variable]
    }
    #expect(Set(variables).count == variables.count)
    #expect(variables.contains("RELAY_LIMITS_SMS_DESTINATION_PER_MINUTE"))
    #expect(variables.contains("RELAY_CLIENT_PORT"))
  }

  @Test func `limits are read by name`() throws {
    let environment = [
      "RELAY_LIMITS_SMS_DESTINATION_PER_MINUTE": "0.25", "RELAY_LIMITS_SMS_DESTINATION_SIZE": "7",
    ]
    let limits = try RelayConfiguration.load(file: nil, environment: environment).configuration.limits
    #expect(limits[.smsDestination] == Bucket(size: 7, perMinute: 0.25))
    #expect(limits[.voiceDestination] == LimiterName.voiceDestination.defaultBucket)
  }

  @Test(
    arguments: [
      ("none", []), ("127.0.0.1", ["127.0.0.1"]),
      ("10.0.0.0/8, fd00::/8,::1", ["10.0.0.0/8", "fd00::/8", "::1"]),
    ])
  func `trusted proxies are addresses and ranges, with or without spaces`(_ text: String, ranges: [String]) throws {
    let loaded = try RelayConfiguration.load(file: nil, environment: ["RELAY_CLIENT_TRUSTED_PROXIES": text])
    #expect(loaded.configuration.client.trustedProxies == ranges.compactMap { AddressRange(text: $0) })
  }

  @Test(
    arguments: [
      "client: {host: localhost}\noperator: {host: '::1'}", "client: {host: 127.9.9.9}",
      "client: {host: 0.0.0.0}\nallow-insecure: [plain-http, log-sender]",
      "client: {host: 0.0.0.0}\nallow-insecure: plain-http, log-sender",
      "client: {host: '::', tls: {certificate: a, key: b}}\nallow-insecure: [log-sender]",
      "operator: {host: '::'}\nallow-insecure: [operator-listener]",
    ])
  func `insecure settings are free on loopback, and elsewhere if they are named`(_ text: String) throws {
    let file = try TemporaryFile(text)
    #expect(throws: Never.self) { try RelayConfiguration.load(file: file.path, environment: [:]) }
  }

  @Test func `at private addresses it is a warning, unless it is named`() throws {
    let hosts = [
      "RELAY_CLIENT_HOST": "10.0.0.5", "RELAY_OPERATOR_HOST": "fd00::5", "RELAY_DEVELOPMENT_ENABLED": "true",
    ]
    let loaded = try RelayConfiguration.load(file: nil, environment: hosts)
    let names = ["plain-http", "operator-listener", "development"]
    for name in names {
      #expect(
        loaded.warnings.contains { $0.text.hasSuffix("allow-insecure: [\(name)]") }, "\(name): \(loaded.warnings)")
    }
    let named = try RelayConfiguration.load(
      file: nil, environment: hosts.merging(["RELAY_ALLOW_INSECURE": names.joined(separator: ",")]) { $1 })
    #expect(!named.warnings.contains { $0.text.contains("allow-insecure") })
  }

  @Test(
    arguments: [
      ("https://relay.example:9443", "0.0.0.0"), ("https://192.0.2.1:9443", "0.0.0.0"),
      ("https://[2001:db8::1]:9443", "::"), ("https://127.0.0.1:9443", "127.0.0.1"),
      ("https://[::1]:9443", "127.0.0.1"), ("https://localhost:9443", "127.0.0.1"),
    ])
  func `peers find a listener at every address, unless they are on this host`(_ url: String, host: String) throws {
    let environment = ["RELAY_FEDERATION_URL": url, "RELAY_FEDERATION_PORT": "9443"]
    let loaded = try RelayConfiguration.load(file: nil, environment: environment)
    #expect(loaded.configuration.federation.host == host)
    #expect(try loaded.setting("federation.host").value == host)
    #expect(loaded.warnings.isEmpty)
  }

  @Test(
    arguments: [
      ("https://relay.example", "127.0.0.1", "peers reach this relay only where"),
      ("https://127.0.0.1:9443", "0.0.0.0", "only peers on this host reach it"),
    ])
  func `a listener that peers do not find is a warning`(_ url: String, host: String, says text: String) throws {
    let environment = [
      "RELAY_FEDERATION_URL": url, "RELAY_FEDERATION_PORT": "9443", "RELAY_FEDERATION_HOST": host,
    ]
    let loaded = try RelayConfiguration.load(file: nil, environment: environment)
    #expect(loaded.configuration.federation.host == host)
    #expect(loaded.warnings.map(\.text).contains { $0.contains(text) }, "\(loaded.warnings)")
  }

  @Test func `a setting that works but is hardly meant is a warning, not a fault`() throws {
    let file = try TemporaryFile("storage:\n  url: postgres://relay@db/relay\ndevelopment:\n  enabled: true\n")
    let loaded = try RelayConfiguration.load(file: file.path, environment: [:])
    #expect(loaded.warnings.map(\.place) == [.file(file.path, line: 2), .file(file.path, line: 4)])
    #expect(!loaded.configuration.storage.migratesAtStart)
    #expect(try loaded.setting("storage.migrate").value == "false")
  }
}

/// A value that each key accepts: its default, or one of its type.
enum Sample {
  /// The base64 of the bytes 0 to 31.
  static let encryptionKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

  static func value(of key: ConfigurationKey) -> String {
    if case .value(let text) = key.default { return text }
    return switch key.type {
    case "apps": #"{"com.example.ios": {"type": "apns", "certfile": "certificate.pem"}}"#
    case "base64 key": encryptionKey
    case "hex key": "000102030405060708090A0b0c0d0e0f"
    case "host": "::1"
    case "part": "1/1"
    case "parts": "1/1=http://10.0.0.1:8090"
    case "port": "8443"
    case "tokens": "viewer:0123456789abcdef0123456789abcdef"
    case "true or false": "true"
    case "URL": "https://relay.example"
    case "whole number": "77"
    default: "example"
    }
  }
}

extension LoadedConfiguration {
  func setting(_ key: String) throws -> EffectiveSetting { try #require(effective.first { $0.key == key }) }
}

/// A file that is gone when its owner is.
final class TemporaryFile: Sendable {
  let path: String

  init(_ text: String) throws {
    path = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)").path
    try text.write(toFile: path, atomically: false, encoding: .utf8)
  }
  deinit { try? FileManager.default.removeItem(atPath: path) }
}
