import Foundation
import RelayCore
import TestTags
import Testing

@testable import RelayConfiguration

@Suite(.tags(.unit)) struct SecretTests {
  @Test func `secrets come from files, without the newline at the end`() throws {
    let (url, token) = (try TemporaryFile("postgres://relay:hunter2@db/relay\n"), try TemporaryFile("tok hunter2\r\n"))
    let file = try TemporaryFile(
      """
      storage:
        url-file: \(url.path)
      verification:
        sender: twilio
        twilio:
          account: AC123
          from: "+15550100"
      """)
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_VERIFICATION_TWILIO_TOKEN_FILE": token.path])
    #expect(loaded.configuration.storage.location == .postgres(uri: Secret("postgres://relay:hunter2@db/relay")))
    #expect(
      loaded.configuration.verification.sender
        == .twilio(
          account: "AC123", token: Secret("tok hunter2"), from: "+15550100",
          url: try #require(WebURL("https://api.twilio.com"))))
    #expect(try loaded.setting("storage.url").value == "postgres://relay:***@db/relay")
    #expect(try loaded.setting("storage.url").origin == .file)
    #expect(try loaded.setting("verification.twilio.token").origin == .environment)
  }

  /// A running process reads the file again that it was started with, and no other.
  @Test(arguments: [
    ("storage.url", "postgres://a/relay", "postgres://b/relay"), ("coordination.url", "redis://a", "redis://b"),
  ])
  func `a URL is taken by a running process from the file that it was in`(key: String, old: String, new: String) throws
  {
    let (first, second) = (try TemporaryFile(old), try TemporaryFile(new))
    func load(_ file: TemporaryFile) throws -> LoadedConfiguration {
      let variable = "RELAY_\(key.uppercased().replacing(".", with: "_"))_FILE"
      return try RelayConfiguration.load(file: nil, environment: [variable: file.path])
    }
    let started = try load(first)
    func isTaken(_ next: LoadedConfiguration) throws -> Bool {
      let changed = try #require(next.changes(since: started).first { $0.name == key })
      guard case .onConnection(let isTaken) = changed.taking else { return false }
      return isTaken(started.configuration, next.configuration)
    }
    #expect(try !isTaken(load(second)))
    try new.write(toFile: first.path, atomically: true, encoding: .utf8)
    #expect(try isTaken(load(first)))
  }

  @Test func `a variable of either kind takes the place of either kind of key in the file`() throws {
    let url = try TemporaryFile("sqlite:from-secret.sqlite")
    let file = try TemporaryFile("storage:\n  url: sqlite:from-file.sqlite\ncoordination:\n  url-file: /nonexistent\n")
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_STORAGE_URL_FILE": url.path, "RELAY_COORDINATION_URL": "local"])
    #expect(loaded.configuration.storage.location == .sqlite(path: "from-secret.sqlite"))
  }

  @Test(
    arguments: [
      "", "\n", String(repeating: "hunter2", count: 20_000),
    ])
  func `a secret's file that is empty, too large or no text is a fault that does not show it`(_ content: String) throws
  {
    let secret = try TemporaryFile(content)
    let faults = try #require(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: nil, environment: ["RELAY_VERIFICATION_WEBHOOK_SECRET_FILE": secret.path])
    }
    #expect(faults.faults.count == 1)
    #expect(!faults.description.contains("hunter2"))
  }

  @Test(
    arguments: [
      ["RELAY_STORAGE_URL": "postgres://relay:hunter2@one,two:5433/relay?sslmode=require"],
      ["RELAY_STORAGE_URL": "postgres://relay:hunter2@one:5432,two:5433/relay?target_session_attrs=read-write"],
      ["RELAY_STORAGE_URL": "postgresql://db/relay?user=relay&password=hunter2&sslpassword=hunter2"],
      ["RELAY_STORAGE_URL": "postgres://relay:hunter2%40@db/relay"],
      ["RELAY_COORDINATION_URL": "redis://:hunter2@cache:6379/3"],
      ["RELAY_COORDINATION_URL": "redis+unix://relay:hunter2@/run/redis.sock?db=1"],
      ["RELAY_COORDINATION_URL": "rediss+sentinel://relay:hunter2@one,two:5/main?sentinel-password=hunter2"],
      ["RELAY_COORDINATION_URL": "redis+sentinel://one/main/1?sentinel-user=a&sentinel-password=hunter2"],
      [
        "RELAY_VERIFICATION_SENDER": "webhook", "RELAY_VERIFICATION_WEBHOOK_SECRET": "hunter2",
        "RELAY_VERIFICATION_WEBHOOK_URL": "https://codes.example/send",
      ],
      ["RELAY_VERIFICATION_TWILIO_TOKEN": "hunter2"], ["RELAY_ATTACHMENTS_S3_SECRET_KEY": "hunter2"],
    ])
  func `no secret is shown, neither by the effective settings nor by describing what was loaded`(
    _ environment: [String: String]
  ) throws {
    let loaded = try RelayConfiguration.load(file: nil, environment: environment)
    #expect(!"\(loaded)".contains("hunter2"))
    #expect(loaded.effective.contains { $0.value?.contains("***") == true })
    var dumped = ""
    dump(loaded, to: &dumped)
    #expect(!dumped.contains("hunter2"))
  }

  @Test func `keys of bytes are shown nowhere either, in any of their forms`() throws {
    let (base64, hex) = ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "000102030405060708090a0b0c0d0e0f")
    let loaded = try RelayConfiguration.load(
      file: nil, environment: ["RELAY_STORAGE_ENCRYPTION_KEY": base64, "RELAY_VERIFICATION_TOKEN_KEY": hex])
    #expect(loaded.configuration.storage.encryptionKey == SecretBytes(Array(0..<32)))
    #expect(loaded.configuration.verification.tokenKey == SecretBytes(Array(0..<16)))
    var dumped = "\(loaded)"
    dump(loaded, to: &dumped)
    for form in [base64, hex, "0, 1, 2, 3"] { #expect(!dumped.contains(form)) }
    #expect(try loaded.setting("storage.encryption-key").value == "***")
    #expect(try loaded.setting("verification.token-key").value == "***")
  }

  @Test func `a PostgreSQL URL that a command is given is judged like storage.url, and not repeated`() throws {
    for url in [
      "postgres://relay:hunter2@a,b:5433/relay", "postgres://a/relay?target_session_attrs=any",
      "postgres://a,b/relay?target_session_attrs=primary",
    ] {
      #expect(StorageLocation.fault(ofPostgresURL: url) == nil)
    }
    for url in [
      "postgres://relay:hunter2@a,b/relay?target_session_attrs=any",
      "postgres:///relay?host=a,b&password=hunter2&target_session_attrs=any",
      "postgres://relay:hunter2@a/relay?target_session_attrs=standby", "postgres//relay:hunter2@a", "sqlite:hunter2",
    ] {
      let fault = try #require(StorageLocation.fault(ofPostgresURL: url))
      #expect(!fault.contains("hunter2"))
    }
  }

  @Test func `Redis URLs are read into their parts`() throws {
    func location(_ url: String) throws -> CoordinationLocation {
      try RelayConfiguration.load(file: nil, environment: ["RELAY_COORDINATION_URL": url])
        .configuration.coordination.location
    }
    #expect(
      try location("redis://cache")
        == .redis(.init(address: .tcp(host: "cache", port: 6379), user: nil, password: nil, database: 0)))
    #expect(
      try location("redis://relay:p%40ss@[::1]:6380/2")
        == .redis(.init(address: .tcp(host: "::1", port: 6380), user: "relay", password: Secret("p@ss"), database: 2)))
    #expect(
      try location("redis+unix:///run/redis/redis.sock?db=4")
        == .redis(.init(address: .unix(path: "/run/redis/redis.sock"), user: nil, password: nil, database: 4)))
    #expect(
      try location("rediss+cluster://:p@one,[fd00::2]:5/")
        == .redis(
          .init(
            place: .cluster([.tcp(host: "one", port: 6379), .tcp(host: "fd00::2", port: 5)]), password: Secret("p"),
            tls: .init())))
    #expect(
      try location("redis+sentinel://one,[fd00::2]:5,three:26379/my%20relay")
        == .redis(
          .init(
            place: .sentinels(
              .init(
                addresses: [
                  .tcp(host: "one", port: 26_379), .tcp(host: "fd00::2", port: 5), .tcp(host: "three", port: 26_379),
                ], group: "my relay")))))
    #expect(
      try location("rediss+sentinel://u:p@one/main/3?sentinel-password=w%26&sentinel-user=v")
        == .redis(
          .init(
            place: .sentinels(
              .init(
                addresses: [.tcp(host: "one", port: 26_379)], group: "main", user: "v", password: Secret("w&"))),
            user: "u", password: Secret("p"), database: 3, tls: .init())))
  }

  @Test(
    arguments: [
      "redis+sentinel://one", "redis+sentinel://one/", "redis+sentinel:///main", "redis+sentinel://one,/main",
      "redis+sentinel://one,one/main", "redis+sentinel://one/main/x", "redis+sentinel://one/main/1/2",
      "redis+sentinel://one/main?sentinel-user=u", "redis+sentinel://one/main?sentinel-password=",
      "redis+sentinel://one/main?password=p", "redis+sentinel://one/main?sentinel-password=a&sentinel-password=b",
      "redis+sentinel://one:0/main", "redis+sentinel://one/main#x", "redis+cluster://", "redis+cluster://one/1",
      "redis+cluster://one,one", "redis+cluster://one?db=1",
    ])
  func `a URL of sentinels or of a cluster that lacks something, or has too much, is refused`(_ url: String) {
    #expect(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: nil, environment: ["RELAY_COORDINATION_URL": url])
    }
  }

  @Test func `a changed file of the URL gives passwords, and neither other sentinels nor another kind of Redis`() throws
  {
    let url = try TemporaryFile("redis+sentinel://:old@one,two/main")
    let coordination = try RelayConfiguration.load(
      file: nil, environment: ["RELAY_COORDINATION_URL_FILE": url.path]
    ).configuration.coordination
    for (text, isTaken) in [
      ("redis+sentinel://:new@one,two/main?sentinel-password=watch", true), ("redis+sentinel://:new@one/main", false),
      ("redis+sentinel://:new@one,two/other", false), ("redis://:new@one", false),
      ("rediss+sentinel://:new@one,two/main", false),
    ] {
      try text.write(toFile: url.path, atomically: true, encoding: .utf8)
      #expect((coordination.presentEndpoint?.password == Secret("new")) == isTaken)
      #expect((coordination.presentEndpoint == nil) == !isTaken)
    }
  }

  @Test func `attachment and file URLs are read into their parts`() throws {
    let configuration = try RelayConfiguration.load(
      file: nil,
      environment: [
        "RELAY_ATTACHMENTS_URL": "s3://relay-files?endpoint=https%3A%2F%2Fs3.example%3A9000&region=eu-1",
        "RELAY_ATTACHMENTS_S3_ACCESS_KEY": "relay", "RELAY_ATTACHMENTS_S3_SECRET_KEY": "hunter2",
        "RELAY_STORAGE_URL": "sqlite:///var/lib/relay.sqlite",
      ]
    ).configuration
    let endpoint = try #require(WebURL("https://s3.example:9000"))
    #expect(configuration.attachments.location == .s3(bucket: "relay-files", endpoint: endpoint, region: "eu-1"))
    let credentials = try #require(configuration.attachments.s3)
    #expect(credentials.accessKey == "relay" && credentials.secretKey == Secret("hunter2"))
    #expect(configuration.storage.location == .sqlite(path: "/var/lib/relay.sqlite"))
  }
}
