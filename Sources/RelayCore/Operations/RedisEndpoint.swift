/// The address of a Redis and how to enter it, as `coordination.url` says it.
package struct RedisEndpoint: Sendable, Equatable, CustomStringConvertible {
  package enum Address: Sendable, Equatable {
    case tcp(host: String, port: Int)
    case unix(path: String)
  }
  package let address: Address
  /// nil for the default user.
  package let user: String?
  package let password: Secret?
  package let database: Int
  /// nil speaks in clear. It has no effect on a Unix socket.
  package let tls: RedisTLSFiles?

  package init(
    address: Address, user: String? = nil, password: Secret? = nil, database: Int = 0, tls: RedisTLSFiles? = nil
  ) {
    self.address = address
    self.user = user
    self.password = password
    self.database = database
    self.tls = tls
  }

  /// The same place, inside TLS by `files`.
  package func secured(by files: RedisTLSFiles) -> RedisEndpoint {
    RedisEndpoint(address: address, user: user, password: password, database: database, tls: files)
  }

  /// Without the password.
  package var description: String {
    switch address {
    case .tcp(let host, let port): "\(tls == nil ? "redis" : "rediss")://\(host):\(port)/\(database)"
    case .unix(let path): "redis+unix://\(path)?db=\(database)"
    }
  }
}

/// The PEM files that TLS to Redis goes by.
package struct RedisTLSFiles: Sendable, Equatable {
  /// CAs, one of which has signed the server's certificate; nil trusts those of the system.
  package let authority: String?
  /// Our client certificate, and its key: both or none.
  package let certificate: String?
  package let key: String?

  package init(authority: String? = nil, certificate: String? = nil, key: String? = nil) {
    self.authority = authority
    self.certificate = certificate
    self.key = key
  }
}
