import RelayCore

/// The server that a connection leads to, and how to enter it.
struct RedisTarget: Equatable {
  let address: RedisEndpoint.Address
  let user: String?
  let password: Secret?
  let database: Int
  /// nil speaks in clear.
  let tls: RedisTLSFiles?
  /// Sentinels named it as the primary. They may be wrong: it is asked for its role.
  let isNamedPrimary: Bool
  /// It is a node of a cluster: others have the other slots.
  let isNode: Bool
}

/// The way to a server, as it is known at the moment.
enum RedisRoute: Equatable {
  case to(RedisTarget)
  /// It is being found out, and the connection is told when it is.
  case soon
  case nowhere(RedisLinkFault)
}

extension RedisEndpoint {
  /// The server at `address`, entered as this endpoint says.
  func target(at address: Address, isNamedPrimary: Bool = false, isNode: Bool = false) -> RedisTarget {
    RedisTarget(
      address: address, user: user, password: password, database: database, tls: tls, isNamedPrimary: isNamedPrimary,
      isNode: isNode)
  }

  /// A sentinel at `address`.
  func sentinelTarget(at address: Address, of sentinels: RedisSentinels) -> RedisTarget {
    RedisTarget(
      address: address, user: sentinels.user, password: sentinels.password, database: 0, tls: tls,
      isNamedPrimary: false, isNode: false)
  }
}

extension RedisLinkFault {
  /// A fault of `target`, by the name of the target where others than the operator named it.
  func of(_ target: RedisTarget?) -> RedisLinkFault {
    guard let target else { return self }
    if target.isNode { return RedisLinkFault("node \(target.address) of Redis: \(reason)", isRefusal: isRefusal) }
    guard target.isNamedPrimary else { return self }
    let subject = "\(target.address), which the sentinels name as the primary,"
    // Nothing for the operator to mend: a fail-over is under way, or the sentinels correct themselves.
    guard !isReplica else { return RedisLinkFault("\(subject) is a replica of Redis", isReplica: true) }
    return RedisLinkFault("\(subject) does not serve: \(reason)", isRefusal: isRefusal)
  }
}
