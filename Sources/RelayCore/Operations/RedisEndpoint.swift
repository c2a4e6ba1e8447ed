/// Where Redis is and how to enter it, as `coordination.url` says it.
package struct RedisEndpoint: Sendable, Equatable, CustomStringConvertible {
  package enum Address: Sendable, Hashable, CustomStringConvertible {
    case tcp(host: String, port: Int)
    case unix(path: String)

    package var description: String {
      switch self {
      case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
      case .unix(let path): path
      }
    }
  }
  /// How the server is found that takes writes.
  package enum Place: Sendable, Equatable {
    /// It stands at this address.
    case server(Address)
    case sentinels(RedisSentinels)
    /// Nodes of a cluster: some of them at least, which name the others.
    case cluster([Address])
  }
  package let place: Place
  /// nil for the default user.
  package let user: String?
  package let password: Secret?
  package let database: Int
  /// nil speaks in clear. It has no effect on a Unix socket. Sentinels are spoken to in the same way.
  package let tls: RedisTLSFiles?

  package init(
    place: Place, user: String? = nil, password: Secret? = nil, database: Int = 0, tls: RedisTLSFiles? = nil
  ) {
    self.place = place
    self.user = user
    self.password = password
    self.database = database
    self.tls = tls
  }

  /// One server.
  package init(
    address: Address, user: String? = nil, password: Secret? = nil, database: Int = 0, tls: RedisTLSFiles? = nil
  ) {
    self.init(place: .server(address), user: user, password: password, database: database, tls: tls)
  }

  /// The same place, inside TLS by `files`.
  package func secured(by files: RedisTLSFiles) -> RedisEndpoint {
    RedisEndpoint(place: place, user: user, password: password, database: database, tls: files)
  }

  /// The addresses that are given: of the server, of the sentinels, or of nodes.
  package var addresses: [Address] {
    switch place {
    case .server(let address): [address]
    case .sentinels(let sentinels): sentinels.addresses
    case .cluster(let nodes): nodes
    }
  }

  /// Without the passwords.
  package var description: String {
    let scheme = tls == nil ? "redis" : "rediss"
    switch place {
    case .server(.unix(let path)): return "redis+unix://\(path)?db=\(database)"
    case .server(let address): return "\(scheme)://\(address)/\(database)"
    case .sentinels(let sentinels):
      let hosts = sentinels.addresses.map(\.description).joined(separator: ",")
      return "\(scheme)+sentinel://\(hosts)/\(sentinels.group)/\(database)"
    case .cluster(let nodes): return "\(scheme)+cluster://\(nodes.map(\.description).joined(separator: ","))"
    }
  }
}

/// Sentinels that watch a primary with its replicas, and name the primary to those who ask.
package struct RedisSentinels: Sendable, Equatable {
  /// One at least.
  package let addresses: [RedisEndpoint.Address]
  /// The name under which the sentinels know the primary (`sentinel monitor NAME`).
  package let group: String
  /// The user at the sentinels themselves; nil for the default one.
  package let user: String?
  package let password: Secret?

  package init(addresses: [RedisEndpoint.Address], group: String, user: String? = nil, password: Secret? = nil) {
    self.addresses = addresses
    self.group = group
    self.user = user
    self.password = password
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
