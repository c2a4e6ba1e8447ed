/// Where a Redis is and how to enter it, as `coordination.url` says it.
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

  package init(address: Address, user: String? = nil, password: Secret? = nil, database: Int = 0) {
    self.address = address
    self.user = user
    self.password = password
    self.database = database
  }

  /// Without the password.
  package var description: String {
    switch address {
    case .tcp(let host, let port): "redis://\(host):\(port)/\(database)"
    case .unix(let path): "redis+unix://\(path)?db=\(database)"
    }
  }
}
