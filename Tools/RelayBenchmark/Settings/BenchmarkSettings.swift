/// How much of everything.
struct BenchmarkSettings: Sendable, Encodable {
  var connections = 64
  /// Accounts at each operator that messages go to and prekeys are drawn from.
  var recipients = 200
  /// One-time prekeys of each of them, as many as one upload takes; when they are used up the last resort is drawn.
  var keysEach = 1000
  /// A message's body, before base64.
  var bodyBytes = 1024
  var warmUpSeconds = 2.0
  var seconds = 10.0
  var rowsPerStatement = 100
  /// Servers of Citus behind the one that relays connect to; without any the operators' stores lie there alone.
  var citusWorkers = 0
  /// Nodes of each operator's Redis Cluster; without any each has one Redis.
  var redisNodes = 0
  /// Requests a second of the scenarios in an open loop, which are measured at each.
  var pacesPerSecond = [100, 1000, 3000]
  /// Accounts, and peers, at which the growth of a message's cost is measured; ascending.
  var growthAccounts = [1000, 100_000, 1_000_000]
  var growthPeers = [1, 8, 64]
  /// Whether system calls are counted, which slows all of them down.
  var countsSystemCalls = false
  /// Devices that are connected and do nothing.
  var idleConnections = 10_000
  /// The window within which they lose their connections, in whole seconds: as long as a drain's by default
  /// (`drain.seconds`).
  var stormSeconds = 10
  /// Sizes of the table in process, one after the other.
  var tableEntries = [1_000_000, 10_000_000, 100_000_000]
  /// Queries of each round there, and rounds; the median counts.
  var tableQueries = 2_000_000
  var tableRounds = 25
  /// Contacts of the directories that a relay is started with, ascending.
  var directoryEntries = [1_000_000]
  /// Starts of each kind; the median counts.
  var directoryStarts = 3
  /// How often it is measured when a registration is seen elsewhere.
  var registrations = 20
}
