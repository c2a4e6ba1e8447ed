/// Which server a request is for: RFC 9112, 3.2 and RFC 9113, 8.3.1.
enum HostField {
  /// Whether a request over HTTP/1.1 says it once, and in a form that it may have.
  /// - Parameter isOptional: in HTTP/1.0 it was.
  static func isProper(_ values: [String], isOptional: Bool) -> Bool {
    guard let host = values.first else { return isOptional }
    return values.count == 1 && isAuthority(host)
  }

  /// Whether a request over HTTP/2 says it, and the same wherever it does.
  static func isProper(authority: String?, hosts: [String]) -> Bool {
    let all = (authority.map { [$0] } ?? []) + hosts
    guard hosts.count <= 1, let first = all.first, isAuthority(first) else { return false }
    return all.allSatisfy { $0.lowercased() == first.lowercased() }
  }

  /// Nothing that ends an authority or that would be read as two of them, and nobody's name or password.
  private static func isAuthority(_ text: String) -> Bool {
    text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"/?#@\\\"<>".utf8.contains($0) }
  }
}
