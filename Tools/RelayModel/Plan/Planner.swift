/// Turns a load into a plan: as few processes as carry it, and the bounds that they meet.
struct Planner: Sendable {
  let constants: Constants
  let hardware: Hardware

  /// A process numbers at most so many peers (docs/directory.md, "Bounds").
  private static let peersMax = 4095.0
  private static let hoursPerMonth = 730.0
  /// Connections to a peer in each direction, as a rule.
  private static let connectionsPerPeer = 2.0
  private static let kibibytesPerMebibyte = 1024.0

  func plan(_ load: Load) -> Plan {
    let processes = processes(for: load)
    let demand = demand(load, processes)
    let bounds = bounds(load, demand).sorted { $0.share > $1.share }
    let parts = parts(load, demand)
    let cores = parts.reduce(0) { $0 + $1.cores }
    return Plan(
      load: load, hardware: hardware, processes: processes,
      messagesPerSecond: demand.localRate + demand.crossingRate,
      rowsPerSecond: demand.messageRate * constants[.rows],
      redisOperationsPerSecond: demand.messageRate * constants[.redisOperations], connections: demand.connections,
      parts: parts, bounds: bounds, accountsAtFirstBound: accountsAtFirstBound(load),
      coreHoursPerMonth: cores * Self.hoursPerMonth,
      costPerMonth: cores * Self.hoursPerMonth * hardware.coreHourPrice, assumed: constants.assumed,
      outsideMeasured: demand.outside.map(\.rawValue))
  }

  private func demand(_ load: Load, _ processes: Double) -> Demand {
    Demand(load, constants, isTLS: hardware.isTLS, processes: processes)
  }

  // MARK: Processes

  /// The fewest that carry `load`: by their cores, their memory and their connections. `processesMax` where none do.
  func processes(for load: Load) -> Double {
    var fails = 0.0
    var works = 1.0
    while !isEnough(works, load) {
      fails = works
      works *= 2
      if works > hardware.processesMax {
        works = hardware.processesMax
        if !isEnough(works, load) { return works }
        break
      }
    }
    while works - fails > 1 {
      let middle = ((fails + works) / 2).rounded(.down)
      if isEnough(middle, load) { works = middle } else { fails = middle }
    }
    return works
  }

  private func isEnough(_ processes: Double, _ load: Load) -> Bool {
    let demand = demand(load, processes)
    return demand.connections / processes <= hardware.connectionsPerProcess
      && demand.relayCores / processes <= hardware.coresPerProcess * hardware.utilization
      && memory(load, demand) <= hardware.memoryPerProcessGiB
  }

  /// GiB of one process, while its directory's table grows.
  private func memory(_ load: Load, _ demand: Demand) -> Double {
    let kibibytes = constants[hardware.isTLS ? .connectionTLS : .connectionPlain]
    let connections =
      demand.connections / demand.processes * kibibytes
      + load.peers * Self.connectionsPerPeer * constants[.connectionTLS]
    let mebibytes =
      constants[.processMemory] + demand.entries * constants[.directoryGrowth] / 1_048_576
      + connections / Self.kibibytesPerMebibyte
    return mebibytes / 1024
  }

  // MARK: Bounds

  private func bounds(_ load: Load, _ demand: Demand) -> [Bound] {
    let (needed, allowed) = (demand.processes, hardware.utilization)
    // One append of a process is under way at a time, and a flush ends each.
    let flushes = demand.messageRate / needed * constants[.walFlush] / 1000
    return [
      Bound(
        name: .postgresCores, need: demand.postgresCores, limit: hardware.postgresCores * allowed, unit: "cores"),
      Bound(
        name: .walBytes, need: demand.messageRate * constants[.wal] / 1e6,
        limit: hardware.walMegabytesPerSecond * allowed, unit: "MB/s"),
      Bound(name: .walFlushes, need: flushes, limit: constants[.batchMax] * allowed, unit: "messages a flush"),
      Bound(
        name: .postgresConnections, need: needed * constants[.storeConnections], limit: hardware.postgresConnections,
        unit: "sessions"),
      Bound(name: .redisCores, need: demand.redisCores, limit: hardware.redisCores * allowed, unit: "cores"),
      // With few connections: more processes leave fewer to each.
      Bound(
        name: .processMemory,
        need: memory(load, Demand(load, constants, isTLS: hardware.isTLS, processes: hardware.processesMax)),
        limit: hardware.memoryPerProcessGiB, unit: "GiB"),
      Bound(
        name: .processCores, need: demand.entries / 1_000_000 * constants[.driftCheck],
        limit: hardware.coresPerProcess * allowed, unit: "cores"),
      Bound(
        name: .processes, need: isEnough(needed, load) ? needed : needed * 1.01, limit: hardware.processesMax,
        unit: "processes"),
      Bound(name: .peers, need: load.peers, limit: Self.peersMax, unit: "peers"),
    ]
  }

  /// By halving, on a scale of ratios.
  private func accountsAtFirstBound(_ load: Load) -> Double? {
    func isPossible(_ accounts: Double) -> Bool {
      let scaled = scaled(load, to: accounts)
      return bounds(scaled, demand(scaled, processes(for: scaled))).allSatisfy { $0.share <= 1 }
    }
    var (low, high) = (1.0, 1e10)
    if isPossible(high) { return nil }
    if !isPossible(low) { return low }
    while high / low > 1.005 {
      let middle = (low * high).squareRoot()
      if isPossible(middle) { low = middle } else { high = middle }
    }
    return low
  }

  /// Peers' accounts grow with ours.
  private func scaled(_ load: Load, to accounts: Double) -> Load {
    var scaled = load
    scaled.accounts = accounts
    scaled.peerAccounts = load.peerAccounts * accounts / load.accounts
    return scaled
  }

  // MARK: Parts

  private func parts(_ load: Load, _ demand: Demand) -> [PlannedPart] {
    let processes = demand.processes + hardware.spareProcesses
    let perDay = load.accounts * load.messagesPerDay * load.devices
    let clients = demand.messageRate * constants[.messageWire]
    let lookUps = load.accounts / 86_400 * load.peak * load.lookUpsPerDay * load.contacts * constants[.tokenWire]
    let toStore = demand.messageRate * constants[.wal] + demand.entries * constants[.driftBytes] * demand.processes
    let toRedis = demand.messageRate * constants[.redisOperations] * Self.commandBytes
    let attachmentsADay = perDay * load.attachmentShare * load.attachmentKilobytes * 1000
    let attachments = attachmentsADay / 86_400 * load.peak * 2
    let crossing = load.peers > 0 ? load.crossingShare : 0
    let disk =
      load.accounts * constants[.accountDisk] + load.peerAccounts * constants[.contactDisk]
      + perDay * (1 - load.onlineShare) * load.waitingHours / 24 * constants[.messageDisk]
      + 2 * 2 * perDay * constants[.acknowledgedDisk] + 30 * perDay * crossing * constants[.crossingDisk]
    let copies = hardware.storeCopies
    return [
      PlannedPart(
        name: "relay", count: processes, busyCores: demand.relayCores, cores: processes * hardware.coresPerProcess,
        memoryGiB: processes * memory(load, demand),
        diskGiB: processes * demand.entries * 12 / Self.gibibyte,
        networkMegabits: (clients + lookUps + toStore + toRedis) * 8 / 1e6),
      PlannedPart(
        name: "PostgreSQL", count: copies, busyCores: demand.postgresCores,
        cores: copies * max(2, (demand.postgresCores / hardware.utilization).rounded(.up)),
        memoryGiB: copies * max(2, disk / Self.gibibyte * Self.cachedShare), diskGiB: copies * disk / Self.gibibyte,
        networkMegabits: toStore * 8 / 1e6),
      PlannedPart(
        name: "Redis", count: copies, busyCores: demand.redisCores,
        cores: copies * max(1, (demand.redisCores / hardware.utilization).rounded(.up)),
        memoryGiB: copies
          * (demand.connections * constants[.connectionRedis] + load.accounts * constants[.accountRedis])
          / Self.gibibyte,
        diskGiB: 0, networkMegabits: toRedis * 8 / 1e6),
      PlannedPart(
        name: "attachments", count: 1, busyCores: 0, cores: 0, memoryGiB: 0,
        diskGiB: attachmentsADay * load.attachmentDays / Self.gibibyte, networkMegabits: attachments * 8 / 1e6),
    ]
  }

  private static let gibibyte = 1_073_741_824.0
  /// A command to Redis and its answer, on the way.
  private static let commandBytes = 200.0
  /// Of PostgreSQL's data, in its memory: a rule of thumb, not measured.
  private static let cachedShare = 0.1
}
