/// What a load asks of each part in its busiest hour, when so many processes share it.
///
/// Rates are those of a second. A message between two accounts here costs `deliver`, or `deliver-across` as often as
/// its recipient is at another process. One that crosses costs each operator its half of `cross`, and half of what
/// delivery adds to acceptance: one of the two, message and receipt, is delivered here.
struct Demand: Sendable {
  let processes: Double
  /// Messages for a device of an account here, or of a peer.
  let localRate: Double
  /// Messages that go to peers; as many come.
  let crossingRate: Double
  let connectRate: Double
  let pushRate: Double
  let connections: Double
  /// Entries of the directory.
  let entries: Double
  /// Busy cores of all processes together, of PostgreSQL and of Redis.
  let relayCores: Double
  let postgresCores: Double
  let redisCores: Double
  /// Names of operations that were used at rates beyond those at which they were measured.
  let outside: [OperationName]

  /// Stored and removed messages of all kinds.
  var messageRate: Double { localRate + 2 * crossingRate }

  init(_ load: Load, _ constants: Constants, isTLS: Bool, processes: Double) {
    self.processes = processes
    let perSecond = load.accounts / 86_400 * load.peak
    let sent = perSecond * load.messagesPerDay * load.devices
    let crossing = load.peers > 0 ? load.crossingShare : 0
    localRate = sent * (1 - crossing)
    crossingRate = sent * crossing
    connections = load.accounts * load.onlineShare * load.devices
    connectRate = connections * load.connectsPerHour / 3600
    // A device that is woken is left alone for a while, so this is an upper bound.
    pushRate = (localRate + crossingRate) * (1 - load.onlineShare)
    entries = load.accounts + load.peerAccounts
    let draws = perSecond * load.drawsPerDay
    let lookUps = perSecond * load.lookUpsPerDay

    let pace = (localRate + 2 * crossingRate) / processes
    // Each process has a queue for each peer: only what goes to one peer travels together.
    let crossingPace = load.peers > 0 ? crossingRate / processes / load.peers : 0
    let deliver = constants[.deliver].cost(at: pace)
    let across = constants[.deliverAcross].cost(at: pace)
    let accept = constants[.accept].cost(at: pace)
    let cross = constants[.cross].cost(at: crossingPace)
    let here = 1 / processes
    let local = deliver * here + across * (1 - here)
    func half(_ part: KeyPath<OperationCost, Double>) -> Double {
      max(0, local[keyPath: part] - accept[keyPath: part]) / 2
    }
    let delivered = OperationCost(relay: half(\.relay), postgres: half(\.postgres), redis: half(\.redis))
    let stores = OperationCost(postgres: cross.postgres / 2, redis: cross.redis / 2)
    let outgoing = OperationCost(relay: cross.relay) + stores + delivered
    let incoming = OperationCost(relay: cross.peer) + stores + delivered
    let draw = constants[.draw].cost(at: 0)
    let drawAcross = constants[.drawAcross].cost(at: 0)
    // As many are drawn here by peers as there by us.
    let drawn =
      draw * (1 - crossing)
      + OperationCost(
        relay: drawAcross.relay + drawAcross.peer, postgres: drawAcross.postgres, redis: drawAcross.redis) * crossing
    let lookUp = constants.lookUp(contacts: load.contacts)
    let busy =
      local * localRate + (outgoing + incoming) * crossingRate + drawn * draws + lookUp * lookUps
    let connect = constants[isTLS ? .connectTLS : .connectPlain]
    let drift = entries / 1000 * constants[.driftCheck] * processes
    relayCores =
      (busy.relay + connectRate * connect + pushRate * constants[.push] + connections * constants[.idleRelay]
        + load.peers * constants[.peerRelay] + drift) / 1000
    postgresCores =
      (busy.postgres + connections * constants[.idlePostgres] + load.peers * constants[.peerPostgres] + drift) / 1000
    redisCores = (busy.redis + connections * constants[.idleRedis]) / 1000

    var outside: [OperationName] = []
    func note(_ name: OperationName, at rate: Double) {
      let range = constants[name].range
      // Rates below the lowest cost what the lowest does: nothing gathers there.
      if rate > range.upperBound * 1.001 { outside.append(name) }
    }
    if localRate > 0 {
      note(.deliver, at: pace)
      note(.deliverAcross, at: pace)
    }
    if crossingRate > 0 {
      note(.accept, at: pace)
      note(.cross, at: crossingPace)
    }
    self.outside = outside
  }
}
