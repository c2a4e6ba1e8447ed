import TestTags
import Testing

@testable import Push

/// Patterns of app ids and of endpoints.
@Suite(.tags(.unit)) struct GlobTests {
  @Test func `every vector of patterns holds`() throws {
    for item in try VectorFile.items("app_id_glob") {
      let pattern = try #require(item["pattern"] as? String)
      let text = try #require(item["text"] as? String)
      #expect(PushGlob(pattern).matches(text) == item["matches"] as? Bool, "\(pattern) and \(text)")
    }
  }

  @Test func `every vector of allowed endpoints holds`() throws {
    for item in try VectorFile.items("webpush_allowed_endpoint") {
      let endpoint = try #require(item["endpoint"] as? String)
      let settings = WebPushSettings(
        keyFile: "", contact: "", allowedEndpoints: try #require(item["allowed_endpoints"] as? [String]))
      #expect(settings.allows(endpoint) == item["allowed"] as? Bool, "\(endpoint)")
    }
    #expect(WebPushSettings(keyFile: "", contact: "").allows("https://anything.example/x"))
  }

  @Test func `many stars cost no more than the product of the lengths`() {
    let pattern = PushGlob(String(repeating: "*a", count: 200) + "b")
    #expect(!pattern.matches(String(repeating: "a", count: 5000)))
    #expect(PushGlob(String(repeating: "*?", count: 100)).matches(String(repeating: "é", count: 100)))
  }
}
