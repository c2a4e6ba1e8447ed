/// The web pages that may use the client API from a browser (RFC 6454; Fetch, "CORS").
package enum AllowedOrigins: Sendable, Equatable {
  /// The setting is absent: pages are told nothing, and a WebSocket may be opened from any origin.
  case unsaid
  case listed(Set<String>)
  case all

  /// - Parameter origin: as a browser sends it.
  package func allows(_ origin: String) -> Bool {
    switch self {
    case .unsaid: false
    case .listed(let origins): origins.contains(origin.lowercased())
    case .all: true
    }
  }
}
