import Foundation
import TestSupport

/// The reference's vectors for functions.
enum VectorFile {
  /// The items of `functions.NAME`.
  static func items(_ name: String) throws -> [[String: Any]] {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "PushGatewayTests/Vectors/push-gateway-vectors.json")
    let whole = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
    guard let items = (whole?["functions"] as? [String: Any])?[name] as? [[String: Any]], !items.isEmpty else {
      throw TestFailure("no vectors called \(name)")
    }
    return items
  }
}
