// One life of one connection to Redis, in clear (RedisPlainLink) or inside TLS (RedisSecureLink). RedisConnection
// keeps a connection alive.

/// A connection on a reactor's thread. Everything happens on that thread.
protocol RedisLink: AnyObject {
  /// Writes `command` at the end of this round of the reactor, with all others of the round.
  func send(_ command: RedisCommand)
  /// Ends the connection; no event follows.
  func close()
  /// The protocol that encrypts the link; nil in clear.
  var encryption: String? { get }
  /// Why a link that has not connected for long may wait; nil when there is nothing to tell.
  var hurdle: String? { get }
}

extension RedisLink {
  var encryption: String? { nil }
  var hurdle: String? { nil }
}

enum RedisLinkEvent {
  case connected
  /// Replies come in the order of their commands; on a subscribed link messages stand among them.
  case reply(RedisReply)
  /// The last event, unless `close` was called: then there is none.
  /// - Parameter fault: nil when the system says all there is to say.
  case closed(_ fault: RedisLinkFault?)
}

/// Why a link ended, or cannot be made. Holds nothing that a peer or a client sent.
struct RedisLinkFault: Error, Equatable {
  let reason: String
  /// The two sides do not trust each other, a file cannot be used, or the server is another than it should be: the
  /// operator has to mend it.
  let isRefusal: Bool
  /// It is a replica: another server may be the primary by now.
  let isReplica: Bool

  init(_ reason: String, isRefusal: Bool = false, isReplica: Bool = false) {
    self.reason = reason
    self.isRefusal = isRefusal
    self.isReplica = isReplica
  }

  /// - Parameter code: of an error that Redis answered a command with.
  /// - Returns: nil for one that says nothing of other commands.
  init?(refusingAll code: String) {
    switch code {
    case "READONLY":
      self.init(
        "Redis is a replica and takes no writes (READONLY); coordination.url must lead to the primary",
        isRefusal: true, isReplica: true)
    case "MASTERDOWN":
      self.init(
        "Redis is a replica that has lost its primary (MASTERDOWN); coordination.url must lead to the primary",
        isRefusal: true, isReplica: true)
    case "CLUSTERDOWN": self.init("the cluster of Redis serves no keys (CLUSTERDOWN)")
    case "NOREPLICAS":
      self.init("Redis has lost its replicas, and takes no writes (NOREPLICAS): it may be a primary of before")
    case "LOADING": self.init("Redis is reading its data from disk (LOADING)")
    case "MISCONF": self.init("Redis cannot keep its data, and takes no writes (MISCONF): is its disk full?")
    default: return nil
    }
  }

  /// - Parameter code: of an error that Redis answered the first commands of a connection with.
  init(refusingLogin code: String) {
    switch code {
    case "WRONGPASS": self.init("Redis refuses the user or the password (WRONGPASS)", isRefusal: true)
    case "NOAUTH": self.init("Redis wants a password (NOAUTH)", isRefusal: true)
    case "NOPERM": self.init("the user of Redis may not do what a relay does (NOPERM)", isRefusal: true)
    default: self.init("Redis answered \(code)")
    }
  }

  /// The codes of the errors that `init(refusingAll:)` knows.
  static let codesRefusingAll = [
    "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "LOADING", "MISCONF",
  ]

  static let cannotConnect = RedisLinkFault("cannot connect")
  static let connectionEnded = RedisLinkFault("the connection ended")
  /// `ROLE` says so of a server that should be the primary.
  static let notPrimary = RedisLinkFault("Redis is a replica", isReplica: true)
  static let slotMoved = RedisLinkFault("the channel's slot has moved to another node")
  static let noCluster = RedisLinkFault("what answers there is no cluster of Redis (cluster-enabled)", isRefusal: true)
  static let primaryMoved = RedisLinkFault("the primary of Redis has moved")
  static let noSentinel = RedisLinkFault("what answers there is no sentinel of Redis", isRefusal: true)
}
