import Foundation

/// A URL that a request may go to: `http` or `https`, a host, and a port that there is.
///
/// AsyncHTTPClient checks none of it: a port beyond 65,535 ends the process, and other schemes lead to sockets of this
/// machine.
struct RequestURL {
  let isTLS: Bool
  /// An IPv6 address without its brackets.
  let host: String
  let port: Int
  let path: String

  /// - Returns: nil for anything else.
  init?(_ text: String) {
    guard let url = URL(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
      let host = url.host(), !host.isEmpty
    else { return nil }
    isTLS = scheme == "https"
    port = url.port ?? (isTLS ? 443 : 80)
    guard (1...65_535).contains(port) else { return nil }
    self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
    path = url.path()
  }
}
