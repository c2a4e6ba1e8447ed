// The places of state, as `storage.url`, `coordination.url` and `attachments.url` say it.

package import RelayCore

package enum StorageLocation: Sendable, Equatable {
  /// A file; relative paths start at the working directory.
  case sqlite(path: String)
  /// A connection URI for libpq, as it was given. Secret because it may hold the password.
  case postgres(uri: Secret)
}

package enum CoordinationLocation: Sendable, Equatable {
  /// Limits and signals stay in the process.
  case local
  case redis(RedisEndpoint)
}

package enum AttachmentsLocation: Sendable, Equatable {
  /// A folder; relative paths start at the working directory.
  case folder(path: String)
  case s3(bucket: String, endpoint: WebURL, region: String)
}

extension ValueType where Value == StorageLocation {
  static let storage = ValueType(name: "URL") { text throws(Malformed) in
    let expected = Malformed("sqlite:PATH or postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE")
    if text.hasPrefix("sqlite:") {
      let path = try filePath(text.dropFirst("sqlite:".count))
      guard !path.hasPrefix(":") else { throw Malformed("sqlite:PATH of a file: messages must outlive the process") }
      return .sqlite(path: path)
    }
    guard let url = URLParts(text), url.scheme == "postgres" || url.scheme == "postgresql", !url.hasFragment,
      let authority = url.authority, url.queryItems != nil
    else { throw expected }
    for host in authority.hosts.split(separator: ",", omittingEmptySubsequences: false) where !host.isEmpty {
      // A socket's folder stands in the host's place percent-encoded.
      guard host.hasPrefix("%") || host.hasPrefix(":") || WebURL.endpoint(String(host)) != nil else { throw expected }
    }
    try checkSession(url, authority)
    return .postgres(uri: Secret(text))
  }

  /// A relay writes. libpq must not lead it to a server that takes no writes.
  private static func checkSession(_ url: URLParts, _ authority: URLParts.Authority) throws(Malformed) {
    let items = url.queryItems ?? []
    func last(_ name: String) -> String? { items.last { $0.name == name }?.value }
    guard let wanted = last("target_session_attrs") else { return }
    let hosts = last("hostaddr") ?? last("host") ?? authority.hosts
    // One host may be a proxy that knows the primary by itself.
    let allowed = hosts.contains(",") ? ["read-write", "primary"] : ["read-write", "primary", "any"]
    guard allowed.contains(wanted) else {
      throw Malformed(
        "target_session_attrs=read-write in it, or none, which is the same: the value there may lead to a standby, which "
          + "takes no writes")
    }
  }
}

extension StorageLocation {
  /// The fault of a PostgreSQL URL that is given elsewhere than in the configuration; nil for none. It never holds the
  /// URL.
  package static func fault(ofPostgresURL text: String) -> String? {
    do throws(Malformed) {
      guard case .postgres = try ValueType.storage.parse(text) else { return "it names no PostgreSQL" }
      return nil
    } catch {
      return "expected \(error.expected)"
    }
  }
}

extension ValueType where Value == AttachmentsLocation {
  static let attachments = ValueType(name: "URL") { text throws(Malformed) in
    if text.hasPrefix("file:") { return .folder(path: try filePath(text.dropFirst("file:".count))) }
    let expected = Malformed("file:PATH or s3://BUCKET?endpoint=URL&region=NAME")
    guard let url = URLParts(text), url.scheme == "s3", !url.hasFragment, url.path.isEmpty || url.path == "/",
      let authority = url.authority, authority.user == nil, WebURL.isHost(authority.hosts),
      let items = url.queryItems, Set(items.map(\.name)) == ["endpoint", "region"], items.count == 2
    else { throw expected }
    guard let endpoint = items.first(where: { $0.name == "endpoint" }).flatMap({ WebURL($0.value) }),
      let region = items.first(where: { $0.name == "region" })?.value, !region.isEmpty
    else { throw expected }
    return .s3(bucket: authority.hosts, endpoint: endpoint, region: region)
  }
}

/// The text behind `sqlite:` or `file:`: a path, or `//` and an absolute one.
private func filePath(_ text: Substring) throws(Malformed) -> String {
  let path = text.hasPrefix("///") ? text.dropFirst(2) : text
  guard !path.isEmpty, !path.hasPrefix("//"), !path.utf8.contains(0) else {
    throw Malformed(
      "a path behind the colon, as in sqlite:relay.sqlite, sqlite:/var/lib/relay.sqlite or file:attachments")
  }
  return String(path)
}
