import OrderedCollections
import RelayConfiguration
import RelayCore
import TestTags
import Testing

/// Sections that are read as they stand, names with dots included.
@Suite(.tags(.unit)) struct TreeTests {
  private static let yaml = """
    client:
      port: 8099
    base: &base
      type: webpush
      ttl: 60
    push-gateway:
      host: 127.0.0.2
      port: 5000
      apps:
        # A comment.
        com.example.ios:
          type: apns
          convert_device_token_to_hex: no
          topic: null
        "*.web":
          <<: *base
          ttl: 0x10
        com.example.android:
          type: 'gcm'
          inflight_request_limit: 1_000
          fcm_options:
            list:
              - a: 1.5
              - "1"
            port: !!str 5
    log:
      level: debug
    """

  @Test func `a tree keeps its order, its types, and names with dots`() throws {
    let file = try TemporaryFile(Self.yaml)
    let tree = try YAMLTree.read(file: file.path)
    let apps = try #require(tree.object?["push-gateway"]?.object?["apps"]?.object)
    #expect(Array(apps.keys) == ["com.example.ios", "*.web", "com.example.android"])
    #expect(
      apps["com.example.ios"]
        == .object(["type": .text("apns"), "convert_device_token_to_hex": .boolean(false), "topic": .null]))
    #expect(apps["*.web"]?.object?["ttl"] == .integer(16) && apps["*.web"]?.object?["type"] == .text("webpush"))
    let android = try #require(apps["com.example.android"]?.object)
    #expect(android["type"] == .text("gcm") && android["inflight_request_limit"] == .integer(1000))
    #expect(
      android["fcm_options"]
        == .object(["list": .list([.object(["a": .number("1.5")]), .text("1")]), "port": .text("5")]))
  }

  @Test func `keys beside a tree are read as before`() throws {
    let own = try TemporaryFile(
      Self.yaml.replacing("base: &base\n  type: webpush\n  ttl: 60\n", with: "")
        .replacing("      <<: *base\n", with: ""))
    let loaded = try RelayConfiguration.load(file: own.path, environment: [:])
    #expect(loaded.configuration.client.port == 8099 && loaded.configuration.log.level == .debug)
    #expect(loaded.configuration.pushGateway.host == "127.0.0.2" && loaded.configuration.pushGateway.port == 5000)
    #expect(loaded.configuration.pushGateway.apps?.object?.count == 3)
    let setting = try loaded.setting("push-gateway.apps")
    #expect(setting.origin == .file && setting.place == .file(own.path, line: 6))
    #expect(try loaded.setting("log.level").place == .file(own.path, line: 23))
  }

  @Test func `the environment's tree takes the place of the file's`() throws {
    let file = try TemporaryFile("push-gateway: {port: 1, apps: {a: {type: apns}}}\n")
    let loaded = try RelayConfiguration.load(
      file: file.path, environment: ["RELAY_PUSH_GATEWAY_APPS": #"{"com.example": {"type": "gcm"}}"#])
    #expect(loaded.configuration.pushGateway.apps == .object(["com.example": .object(["type": .text("gcm")])]))
    #expect(try loaded.setting("push-gateway.apps").origin == .environment)
  }

  @Test func `a fault in a tree is told with its line, and shown as the reader says`() throws {
    let file = try TemporaryFile("push-gateway:\n  port: 1\n  apps:\n    com.example.ios:\n      type: what\n")
    let readers = TreeReaders { _ in
      TreeReport(
        summary: "two apps",
        findings: [
          .init(at: ["com.example.ios", "type"], "expects apns"),
          .init(at: ["com.example.ios"], "odd", isWarning: true),
        ])
    }
    let faults = try #require(throws: ConfigurationFaults.self) {
      try RelayConfiguration.load(file: file.path, environment: [:], readers: readers)
    }
    #expect(faults.description == "\(file.path):5: push-gateway.apps.com.example.ios.type: expects apns")
    let content = TreeReaders { _ in TreeReport(summary: "two apps", findings: []) }
    let loaded = try RelayConfiguration.load(file: file.path, environment: [:], readers: content)
    #expect(try loaded.setting("push-gateway.apps").value == "two apps")
  }

  @Test func `apps without a port are a warning`() throws {
    let file = try TemporaryFile("push-gateway:\n  apps:\n    a:\n      type: apns\n")
    let warnings = try RelayConfiguration.load(file: file.path, environment: [:]).warnings
    #expect(warnings.map(\.text) == ["push-gateway.apps has no effect without push-gateway.port: the gateway is off"])
  }

  /// In YAML 1.1 these are numbers to the base of 60. The library ended the process over the first.
  @Test func `numbers with colons are texts`() throws {
    for text in ["10000000000:0:00:0:00:0:00:0:00", "1:30", "-190:20:30.15"] {
      let file = try TemporaryFile("key: \(text)")
      #expect(try YAMLTree.read(file: file.path).object?["key"] == .text(text))
    }
  }

  @Test func `aliases that stand for more than memory holds are refused`() throws {
    var yaml = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for level in 1...8 {
      let names = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ", ")
      yaml += "a\(level): &a\(level) [\(names)]\n"
    }
    let file = try TemporaryFile(yaml)
    let fault = try #require(throws: ConfigurationFault.self) { try YAMLTree.read(file: file.path) }
    #expect(fault.text.contains("than any configuration has"))
  }
}
