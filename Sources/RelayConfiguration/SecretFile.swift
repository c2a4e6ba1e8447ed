package import RelayCore

/// A file that holds one secret, as systemd credentials and container secrets are: a newline at its end is not part of
/// it.
enum SecretFile {
  private static let bytesMax = 64 << 10

  /// - Throws: completes "the file PATH ...". Never holds content.
  static func read(_ path: String) throws(BoundedFile.Failure) -> String {
    let bytes: [UInt8]
    do throws(BoundedFile.Failure) {
      bytes = try BoundedFile.read(path, bytesMax: bytesMax)
    } catch {
      throw BoundedFile.Failure(reason: "cannot be read: \(error.reason)")
    }
    guard var text = String(validating: bytes, as: UTF8.self) else { throw BoundedFile.Failure(reason: "is not UTF-8") }
    // "\r\n" is one Character.
    if text.last == "\n" || text.last == "\r\n" { text.removeLast() }
    guard !text.isEmpty else { throw BoundedFile.Failure(reason: "is empty") }
    return text
  }

  /// - Returns: nil for what cannot be read, and for what is no value of `type`.
  fileprivate static func value<Value>(in path: String, _ type: ValueType<Value>) -> Value? {
    do throws(BoundedFile.Failure) {
      let text = try read(path)
      do throws(Malformed) { return try type.parse(text) } catch { return nil }
    } catch {
      return nil
    }
  }
}

// Passwords change under running relays: what stands in the file of a URL is read anew whenever it is connected to.

extension RelayConfiguration.Storage {
  /// The URL that `storage.url-file` holds now; nil where the URL stands elsewhere, or the file names no PostgreSQL.
  package var presentURL: Secret? {
    guard let urlFile, case .postgres(let uri)? = SecretFile.value(in: urlFile, .storage) else { return nil }
    return uri
  }
}

extension RelayConfiguration.Coordination {
  /// The place that `coordination.url-file` names now; nil where the URL stands elsewhere, or the file names no Redis
  /// that is spoken to in the same way, inside TLS or not, and found in the same way, by the same sentinels or by none.
  package var presentEndpoint: RedisEndpoint? {
    guard let urlFile, case .redis(let former) = location,
      case .redis(let endpoint)? = SecretFile.value(in: urlFile, .coordination),
      (endpoint.tls == nil) == (former.tls == nil), endpoint.isFound(as: former)
    else { return nil }
    return former.tls.map { endpoint.secured(by: $0) } ?? endpoint
  }
}

extension RedisEndpoint {
  /// Whether only logins, the database, and the address of a single server or of nodes may be others than in `former`.
  fileprivate func isFound(as former: RedisEndpoint) -> Bool {
    switch (place, former.place) {
    case (.server, .server), (.cluster, .cluster): true
    case (.sentinels(let sentinels), .sentinels(let others)):
      sentinels.addresses == others.addresses && sentinels.group == others.group
    case (.server, _), (.sentinels, _), (.cluster, _): false
    }
  }
}
