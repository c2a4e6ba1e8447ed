/// One number that a plan stands on.
struct Constant: Sendable, Decodable, Equatable {
  let name: String
  let value: Double
  let unit: String
  /// False: assumed, or taken from something else that was measured.
  let measured: Bool
  /// A key of the file's machines.
  let machine: String
  /// The command that measures it.
  let command: String
  let note: String?
}

/// The names of the constants that the model uses: the file has each of them once, and no other.
enum ConstantName: String, CaseIterable, Sendable {
  case connectTLS = "connect-tls"
  case connectPlain = "connect-plain"
  case connectionTLS = "connection-tls"
  case connectionPlain = "connection-plain"
  case directoryEntry = "directory-entry"
  case directoryGrowth = "directory-growth"
  case processMemory = "process-memory"
  case push
  case driftCheck = "drift-check"
  case driftBytes = "drift-bytes"
  case idleRelay = "idle-relay"
  case idlePostgres = "idle-postgres"
  case idleRedis = "idle-redis"
  case peerRelay = "peer-relay"
  case peerPostgres = "peer-postgres"
  case rows
  case wal
  case walFlush = "wal-flush"
  case redisOperations = "redis-operations"
  case batchMax = "batch-max"
  case storeConnections = "store-connections"
  case accountDisk = "account-disk"
  case contactDisk = "contact-disk"
  case messageDisk = "message-disk"
  case acknowledgedDisk = "acknowledged-disk"
  case crossingDisk = "crossing-disk"
  case connectionRedis = "connection-redis"
  case accountRedis = "account-redis"
  case messageWire = "message-wire"
  case tokenWire = "token-wire"
}
