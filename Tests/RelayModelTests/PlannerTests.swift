import TestTags
import Testing

@testable import RelayModel

/// Plans for loads whose outcome can be reckoned by hand.
@Suite(.tags(.unit)) struct PlannerTests {
  private func planner(_ values: [ConstantName: Double] = [:], _ hardware: Hardware = Hardware()) throws -> Planner {
    Planner(constants: try Samples.constants(values), hardware: hardware)
  }

  private func part(_ name: String, _ plan: Plan) throws -> PlannedPart {
    try #require(plan.parts.first { $0.name == name })
  }

  @Test func `a thousand messages a second of one millisecond each are one busy core`() throws {
    let plan = try planner().plan(Samples.messagesOnly)
    #expect(abs(plan.messagesPerSecond - 1000) < 1e-6)
    #expect(abs(try part("relay", plan).busyCores - 1) < 1e-6)
    #expect(abs(try part("PostgreSQL", plan).busyCores - 0.5) < 1e-6)
    #expect(abs(try part("Redis", plan).busyCores - 0.1) < 1e-6)
    // 2 cores to 60 % are 1.2.
    #expect(plan.processes == 1)
    #expect(try part("relay", plan).count == 2)
    // 2 processes of 2 cores, and two servers of 2 and of 1.
    #expect(plan.coreHoursPerMonth == Double(4 + 4 + 2) * 730)
    #expect(abs(plan.costPerMonth - plan.coreHoursPerMonth * 0.04) < 1e-6)
  }

  @Test func `as many processes as their cores need`() throws {
    var load = Samples.messagesOnly
    load.messagesPerDay = 2500
    // 2.5 busy cores, 1.2 each.
    #expect(try planner().processes(for: load) == 3)
    load.messagesPerDay = 2390
    #expect(try planner().processes(for: load) == 2)
  }

  @Test func `as many processes as their connections need`() throws {
    var load = Samples.messagesOnly
    (load.messagesPerDay, load.accounts, load.onlineShare) = (0, 100_000, 0.5)
    #expect(try planner().processes(for: load) == 3)
    var hardware = Hardware()
    hardware.connectionsPerProcess = 50_000
    #expect(try planner([:], hardware).processes(for: load) == 1)
  }

  @Test func `as many processes as their memory needs`() throws {
    var load = Samples.messagesOnly
    (load.messagesPerDay, load.accounts, load.onlineShare) = (0, 1000, 1)
    var hardware = Hardware()
    hardware.memoryPerProcessGiB = 1
    // 1,000 connections of 3 MiB, and half of a GiB is taken.
    let values: [ConstantName: Double] = [.connectionTLS: 3072, .processMemory: 512]
    #expect(try planner(values, hardware).processes(for: load) == 6)
    hardware.isTLS = false
    #expect(try planner(values, hardware).processes(for: load) == 1)
  }

  @Test func `a message that crosses costs each side its half of the stores`() throws {
    var load = Samples.messagesOnly
    (load.peers, load.crossingShare) = (1, 1)
    // Acceptance and delivery cost the same: nothing comes on top. 1,000 go and 1,000 come.
    let plan = try planner().plan(load)
    #expect(abs(try part("relay", plan).busyCores - 2) < 1e-6)
    #expect(abs(try part("PostgreSQL", plan).busyCores - 0.5) < 1e-6)
    #expect(abs(try part("Redis", plan).busyCores - 0.1) < 1e-6)
  }

  @Test func `a receipt for a message that crosses costs half of what delivery adds`() throws {
    let constants = try Samples.constants(operations: [
      .accept: [["perSecond": 1000, "relay": 0.5, "postgres": 0.25, "redis": 0.1]]
    ])
    var load = Samples.messagesOnly
    (load.peers, load.crossingShare) = (1, 1)
    let demand = Demand(load, constants, isTLS: true, processes: 4)
    // 2,000 a second: 1 and half of 0.5; 0.25 and half of 0.25.
    #expect(abs(demand.relayCores - 2.5) < 1e-6)
    #expect(abs(demand.postgresCores - 0.75) < 1e-6)
  }

  @Test func `a recipient is at another process as often as there are others`() throws {
    let constants = try Samples.constants(operations: [
      .deliverAcross: [["perSecond": 1000, "relay": 2, "postgres": 0.5, "redis": 0.1]]
    ])
    let demand = Demand(Samples.messagesOnly, constants, isTLS: true, processes: 4)
    #expect(abs(demand.relayCores - 1.75) < 1e-6)
  }

  @Test func `the queue for a peer gathers what goes to that peer alone`() throws {
    let points: [[String: Double]] = [
      ["perSecond": 10, "relay": 10, "peer": 0, "postgres": 0, "redis": 0],
      ["perSecond": 1000, "relay": 1, "peer": 0, "postgres": 0, "redis": 0],
    ]
    let constants = try Samples.constants(operations: [.cross: points, .deliver: points, .deliverAcross: points])
    var load = Samples.messagesOnly
    (load.peers, load.crossingShare) = (1, 1)
    let one = Demand(load, constants, isTLS: true, processes: 1).relayCores
    load.peers = 100
    let hundred = Demand(load, constants, isTLS: true, processes: 1).relayCores
    #expect(abs(hundred - one - 9) < 1e-6)
  }

  @Test func `connections, pushes, peers and the directory cost what their constants say`() throws {
    var load = Samples.messagesOnly
    (load.messagesPerDay, load.onlineShare, load.connectsPerHour) = (0, 1, 1)
    let connecting = try planner([.connectTLS: 0.5, .idleRelay: 0.01, .idleRedis: 0.001]).plan(load)
    // 24 connects a second, 86,400 connections.
    #expect(abs(try part("relay", connecting).busyCores - (0.012 + 0.864)) < 1e-6)
    #expect(abs(try part("Redis", connecting).busyCores - 0.0864) < 1e-6)
    load = Samples.messagesOnly
    let pushing = try planner([.push: 0.1]).plan(load)
    #expect(abs(try part("relay", pushing).busyCores - 1.1) < 1e-6)
    load.messagesPerDay = 0
    load.peers = 100
    load.peerAccounts = 913_600
    let idle = try planner([.peerRelay: 1, .peerPostgres: 2, .driftCheck: 0.1]).plan(load)
    // A million entries: 100 ms a second, here and at the store.
    #expect(abs(try part("relay", idle).busyCores - 0.2) < 1e-6)
    #expect(abs(try part("PostgreSQL", idle).busyCores - 0.3) < 1e-6)
  }

  @Test func `each bottleneck is named when it is the first`() throws {
    func first(_ values: [ConstantName: Double], _ change: (inout Load, inout Hardware) -> Void) throws -> Bound.Name? {
      var (load, hardware) = (Samples.messagesOnly, Hardware())
      change(&load, &hardware)
      return try planner(values, hardware).plan(load).firstBound?.name
    }
    #expect(
      try first([:]) { load, hardware in (load.messagesPerDay, hardware.postgresCores) = (2000, 1) } == .postgresCores)
    #expect(try first([.idleRedis: 0.01]) { load, _ in load.onlineShare = 1 } == .redisCores)
    #expect(try first([.wal: 400_000]) { _, _ in } == .walBytes)
    #expect(try first([.walFlush: 200, .batchMax: 100]) { _, _ in } == .walFlushes)
    #expect(
      try first([.storeConnections: 6]) { _, hardware in hardware.postgresConnections = 10 } == .postgresConnections)
    #expect(
      try first([.directoryGrowth: 45]) { load, hardware in
        (load.peers, load.peerAccounts, hardware.memoryPerProcessGiB) = (1, 1e9, 1)
      } == .processMemory)
    #expect(
      try first([:]) { load, _ in (load.messagesPerDay, load.peers, load.crossingShare) = (0, 5000, 0) } == .peers)
    #expect(
      try first([.driftCheck: 0.1]) { load, hardware in
        (load.peers, load.peerAccounts, load.messagesPerDay, hardware.postgresCores) = (1, 2e7, 0, 1e6)
      } == .processCores)
    #expect(try first([:]) { _, hardware in hardware.processesMax = 0.5 } == .processes)
  }

  @Test func `a plan says at how many accounts the first bound is reached`() throws {
    var hardware = Hardware()
    hardware.postgresCores = 10
    // A thousand messages a second take half a core: six cores are reached at twelve times as many.
    let plan = try planner([:], hardware).plan(Samples.messagesOnly)
    let accounts = try #require(plan.accountsAtFirstBound)
    // Redis comes before: 0.1 of 0.6 cores, six times as many.
    #expect(abs(accounts / (6 * 86_400) - 1) < 0.01)
    #expect(plan.firstBound?.name == .redisCores)
    #expect(abs((plan.firstBound?.share ?? 0) - 1.0 / 6) < 1e-6)
    #expect(plan.text.contains("First bottleneck: Redis's one core, used to 16.7 %"))
  }

  @Test func `more of anything never needs less`() throws {
    let planner = Planner(constants: try Samples.committed(), hardware: Sizes.large)
    var base = Sizes.load(2e6)
    base.messagesPerDay = 40
    let before = planner.plan(base)
    let more: [(String, (inout Load) -> Void)] = [
      ("accounts", { $0.accounts *= 3 }), ("messages", { $0.messagesPerDay *= 3 }),
      ("online", { $0.onlineShare = 0.9 }),
      ("contacts", { $0.contacts *= 10 }), ("look-ups", { $0.lookUpsPerDay *= 5 }), ("draws", { $0.drawsPerDay *= 5 }),
      ("connects", { $0.connectsPerHour *= 10 }), ("peers", { $0.peers *= 3 }), ("peak", { $0.peak *= 2 }),
    ]
    for (name, change) in more {
      var load = base
      change(&load)
      let after = planner.plan(load)
      #expect(after.processes >= before.processes, "\(name)")
      for (old, new) in zip(before.parts, after.parts) {
        // By the measured points PostgreSQL's work falls by up to a fifth while the rate of a process rises.
        #expect(new.busyCores >= old.busyCores * 0.8, "\(name), \(new.name)")
        #expect(new.networkMegabits >= old.networkMegabits * 0.999, "\(name), \(new.name)")
      }
    }
  }

  @Test func `fewer processes than the plan's do not carry the load, and its own do`() throws {
    let planner = Planner(constants: try Samples.committed(), hardware: Hardware())
    for accounts in [1e4, 1e5, 1e6] {
      let load = Sizes.load(accounts)
      let processes = planner.processes(for: load)
      func share(_ processes: Double) -> Double {
        let demand = Demand(load, planner.constants, isTLS: true, processes: processes)
        return max(demand.connections / processes / 20_000, demand.relayCores / processes / 1.2)
      }
      #expect(share(processes) <= 1)
      #expect(processes == 1 || share(processes - 1) > 1, "\(accounts): \(processes)")
    }
  }

  @Test func `nobody at all needs one process and the spare one`() throws {
    var load = Samples.messagesOnly
    load.messagesPerDay = 0
    let plan = try planner().plan(load)
    #expect(plan.processes == 1)
    #expect(try part("relay", plan).count == 2)
    #expect(plan.parts.allSatisfy { $0.busyCores == 0 })
    #expect(plan.accountsAtFirstBound == nil || plan.isPossible)
  }

  @Test func `what was not measured is said`() throws {
    let plan = Planner(constants: try Samples.committed(), hardware: Hardware()).plan(Load())
    #expect(plan.text.contains("Assumed, and not measured: "))
    #expect(plan.text.contains("wal-flush"))
    var load = Samples.messagesOnly
    load.messagesPerDay = 5000
    var hardware = Hardware()
    hardware.coresPerProcess = 100
    let fast = try planner([:], hardware).plan(load)
    #expect(fast.outsideMeasured == ["deliver", "deliver-across"])
    #expect(fast.text.contains("Faster than was measured"))
    #expect(!fast.text.contains("Assumed"))
  }

  @Test func `values that cannot be are refused by their options' names`() {
    func fault(_ change: (inout Load) -> Void) -> String {
      var load = Load()
      change(&load)
      do { try load.check() } catch { return "\(error)" }
      return "none"
    }
    #expect(fault { _ in } == "none")
    #expect(fault { $0.accounts = 0 } == "--accounts is 0: it goes from 1 to 10000000000")
    #expect(fault { $0.onlineShare = 1.5 }.hasPrefix("--online-share is 1.5"))
    #expect(fault { $0.messagesPerDay = -1 }.hasPrefix("--messages-per-day is -1"))
    #expect(fault { $0.messagesPerDay = .nan }.hasPrefix("--messages-per-day is nan"))
    #expect(fault { $0.peerAccounts = 5 } == "--peer-accounts needs --peers")
    var hardware = Hardware()
    hardware.utilization = 0
    #expect(throws: ModelFailure("--utilization is 0: it goes from 0.05 to 1")) { try hardware.check() }
  }
}
