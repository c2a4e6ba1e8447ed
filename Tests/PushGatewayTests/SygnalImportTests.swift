import OrderedCollections
import PushGateway
import RelayCore
import TestTags
import Testing

/// An existing Sygnal configuration as ours.
@Suite(.tags(.unit)) struct SygnalImportTests {
  private static let sygnal = #"""
    {"http": {"bind_addresses": ["127.0.0.1", "::1"], "port": 5001},
     "log": {"setup": {}}, "db": null,
     "metrics": {"prometheus": {"enabled": true, "port": 8000}, "sentry": {"enabled": true}},
     "proxy": "http://proxy", "colours": 1,
     "apps": {"com.example.ios": {"type": "apns", "certfile": "c.pem", "topic": null},
              "com.example.*": {"type": "gcm", "api_version": "v1", "project_id": "p",
                                "service_account_file": "/s.json", "fcm_options": {"a": [1, "yes"]}}}}
    """#

  @Test func `apps and the listener are taken over`() throws {
    let imported = try SygnalImport(try JSONValue(Self.sygnal))
    let expected = try JSONValue(
      #"""
      {"push-gateway": {"host": "127.0.0.1", "port": 5001, "apps": {
        "com.example.ios": {"type": "apns", "certfile": "c.pem"},
        "com.example.*": {"type": "gcm", "api_version": "v1", "project_id": "p", "service_account_file": "/s.json",
                          "fcm_options": {"a": [1, "yes"]}}}}}
      """#)
    #expect(imported.configuration == expected)
    _ = try PushApps(try #require(imported.configuration.object?["push-gateway"]?.object?["apps"]))
  }

  @Test func `a setting that could not be taken over is reported`() throws {
    let notes = try SygnalImport(try JSONValue(Self.sygnal)).notes
    for beginning in ["http.bind_addresses:", "log:", "db:", "metrics.prometheus:", "proxy:", "colours:", "Paths"] {
      #expect(notes.contains { $0.hasPrefix(beginning) }, "\(beginning)")
    }
    #expect(notes.contains { $0.contains("metrics.sentry: relay has none.") })
  }

  @Test func `the YAML says what the configuration says`() throws {
    let yaml = try SygnalImport(try JSONValue(Self.sygnal)).yaml
    let lines = yaml.split(separator: "\n").drop { $0.hasPrefix("#") }
    #expect(
      lines.joined(separator: "\n") == """
        push-gateway:
          host: "127.0.0.1"
          port: 5001
          apps:
            com.example.ios:
              type: "apns"
              certfile: "c.pem"
            "com.example.*":
              type: "gcm"
              api_version: "v1"
              project_id: "p"
              service_account_file: "/s.json"
              fcm_options:
                a: [1, "yes"]
        """)
  }

  @Test func `a configuration without apps is refused`() throws {
    let sygnal = try JSONValue(#"{"http": {}}"#)
    #expect(throws: PushAppFaults.self) { try SygnalImport(sygnal) }
  }
}
