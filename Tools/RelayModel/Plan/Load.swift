/// What people do with a relay, and how many they are.
struct Load: Sendable, Codable, Equatable {
  var accounts = 1_000_000.0
  /// Messages that an account sends in a day, on the average.
  var messagesPerDay = 20.0
  /// 0...1: accounts with a device connected in the busiest hour.
  var onlineShare = 0.3
  /// Devices of an account; a message goes to each of its recipient's.
  var devices = 1.0
  /// Contacts of an address book.
  var contacts = 300.0
  /// Look-ups of the whole address book by an account in a day.
  var lookUpsPerDay = 1.0
  /// Prekeys that an account draws in a day.
  var drawsPerDay = 0.5
  /// Connections that each connected device opens in an hour.
  var connectsPerHour = 1.0
  var peers = 0.0
  /// 0...1: messages that go to accounts of peers; as many come from there. 0 without peers.
  var crossingShare = 0.3
  /// Accounts of all peers together, which are in the directory.
  var peerAccounts = 0.0
  /// The rate of the busiest hour, in those of the average one.
  var peak = 3.0
  /// Hours that a message waits for a device that is not connected, on the average.
  var waitingHours = 8.0
  /// 0...1: messages with an attachment.
  var attachmentShare = 0.05
  var attachmentKilobytes = 200.0
  var attachmentDays = 30.0

  /// - Throws: `ModelFailure` that names the value.
  func check() throws {
    func demand(_ value: Double, _ range: ClosedRange<Double>, _ name: String) throws {
      guard range.contains(value) else {
        throw ModelFailure(
          "\(name) is \(Numbers.plain(value)): it goes from \(Numbers.plain(range.lowerBound)) to \(Numbers.plain(range.upperBound))"
        )
      }
    }
    try demand(accounts, 1...1e10, "--accounts")
    try demand(messagesPerDay, 0...100_000, "--messages-per-day")
    try demand(onlineShare, 0...1, "--online-share")
    try demand(devices, 1...6, "--devices")
    try demand(contacts, 0...100_000, "--contacts")
    try demand(lookUpsPerDay, 0...1440, "--look-ups-per-day")
    try demand(drawsPerDay, 0...10_000, "--draws-per-day")
    try demand(connectsPerHour, 0...3600, "--connects-per-hour")
    try demand(peers, 0...100_000, "--peers")
    try demand(crossingShare, 0...1, "--crossing-share")
    try demand(peerAccounts, 0...1e10, "--peer-accounts")
    try demand(peak, 1...100, "--peak")
    try demand(waitingHours, 0...8760, "--waiting-hours")
    try demand(attachmentShare, 0...1, "--attachment-share")
    try demand(attachmentKilobytes, 0...5_000_000, "--attachment-kilobytes")
    try demand(attachmentDays, 0...3650, "--attachment-days")
    guard peers > 0 || peerAccounts == 0 else { throw ModelFailure("--peer-accounts needs --peers") }
  }
}

/// The machines that a relay may have, and what they cost.
struct Hardware: Sendable, Codable, Equatable {
  var coresPerProcess = 2.0
  var memoryPerProcessGiB = 8.0
  /// `client.connections-max`.
  var connectionsPerProcess = 20_000.0
  /// 0...1: of cores and other things that may be busy in the busiest hour.
  var utilization = 0.6
  var postgresCores = 64.0
  var walMegabytesPerSecond = 500.0
  var postgresConnections = 1000.0
  /// Redis carries out commands on one.
  var redisCores = 1.0
  var processesMax = 2000.0
  /// Whether the relay itself speaks TLS with clients.
  var isTLS = true
  /// Processes beyond those that the load needs.
  var spareProcesses = 1.0
  /// Copies of PostgreSQL and Redis: 2 is a primary and a standby.
  var storeCopies = 2.0
  /// Of one core for one hour, in any currency.
  var coreHourPrice = 0.04

  /// - Throws: `ModelFailure` that names the value.
  func check() throws {
    func demand(_ value: Double, _ range: ClosedRange<Double>, _ name: String) throws {
      guard range.contains(value) else {
        throw ModelFailure(
          "\(name) is \(Numbers.plain(value)): it goes from \(Numbers.plain(range.lowerBound)) to \(Numbers.plain(range.upperBound))"
        )
      }
    }
    try demand(coresPerProcess, 0.1...1024, "--cores-per-process")
    try demand(memoryPerProcessGiB, 0.1...24_576, "--memory-per-process")
    try demand(connectionsPerProcess, 10...1_000_000, "--connections-per-process")
    try demand(utilization, 0.05...1, "--utilization")
    try demand(postgresCores, 1...4096, "--postgres-cores")
    try demand(walMegabytesPerSecond, 1...1_000_000, "--wal-megabytes")
    try demand(postgresConnections, 10...1_000_000, "--postgres-connections")
    try demand(spareProcesses, 0...10_000, "--spare-processes")
    try demand(storeCopies, 1...100, "--store-copies")
    try demand(coreHourPrice, 0...1_000_000, "--core-hour-price")
  }
}
