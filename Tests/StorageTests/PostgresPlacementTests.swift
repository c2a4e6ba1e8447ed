import TestTags
import Testing

@testable import Storage

/// What `relay storage distribute` and `relay doctor` conclude from what a coordinator tells.
@Suite(.tags(.unit)) struct PostgresPlacementTests {
  private static func node(
    _ address: String, isCoordinator: Bool = false, isActive: Bool = true, answers: Bool = true,
    prepares: Bool = true, bytes: Int64 = 0
  ) -> PostgresPlacement.Node {
    PostgresPlacement.Node(
      address: address, isCoordinator: isCoordinator, isActive: isActive, answers: answers,
      preparesTransactions: prepares, unsafeSettings: [], takesShards: !isCoordinator,
      shards: isCoordinator ? 0 : 16, bytes: bytes)
  }

  /// - Parameter spread: the tables that are distributed; nil: all of them.
  private static func placement(
    _ citus: PostgresPlacement.Citus = .created(version: "12.1-1"), mayCreate: Bool = true, isWorker: Bool = false,
    nodes: [PostgresPlacement.Node]? = nil, spread: Set<String>? = nil, remains: Int64 = 0,
    odd: PostgresPlacement.Table.Spread? = nil
  ) -> PostgresPlacement {
    let usual = [node("c:5432", isCoordinator: true), node("a:5432"), node("b:5432")]
    let tables = DistributedTables.names.map { name in
      let isSpread = spread?.contains(name) ?? true
      let way = name == "wakes" ? odd : nil
      return PostgresPlacement.Table(
        name: name, spread: isSpread ? way ?? .init(column: "account", group: 1, shards: 32) : nil, localBytes: remains)
    }
    return PostgresPlacement(
      citus: citus, mayCreate: mayCreate, isWorker: isWorker, nodes: nodes ?? usual, tables: tables)
  }

  @Test func `a store of one server becomes a distributed one table by table, beside the first, messages last`() {
    let steps = Self.placement(.loaded, nodes: [], spread: []).steps(shards: 48)
    #expect(steps.first == .createExtension)
    #expect(steps.dropFirst().first == .distribute("one_time_prekeys", bytes: 0, .shards(48)))
    #expect(steps.last == .distribute("messages", bytes: 0, .beside("one_time_prekeys")))
    #expect(steps.count == 1 + DistributedTables.names.count)
  }

  @Test func `what was broken off goes on beside the tables that are distributed already`() {
    let begun = Self.placement(spread: ["one_time_prekeys", "last_resort_prekeys", "wakes", "wake_history"])
    #expect(begun.isBegun && !begun.isDone)
    #expect(
      begun.steps(shards: 8) == [
        .distribute("acknowledged", bytes: 0, .beside("one_time_prekeys")),
        .distribute("messages", bytes: 0, .beside("one_time_prekeys")),
      ])
  }

  @Test func `the rows that the coordinator keeps of a distributed table are removed, and then nothing is left`() {
    let kept = Self.placement(remains: 8192)
    #expect(!kept.isDone && kept.steps(shards: 8) == DistributedTables.names.map { .empty($0) })
    let done = Self.placement()
    #expect(done.isDone && done.steps(shards: 8) == [] && done.obstacle == nil && done.shards == 32)
  }

  @Test func `where nobody says how many, there are two shards for each worker`() {
    #expect(Self.placement(spread: []).usualShards == 4)
    #expect(Self.placement(nodes: []).usualShards == 2)
  }

  @Test func `each obstacle is named`() {
    func expect(_ placement: PostgresPlacement, _ matches: (DistributionFailure) -> Bool) {
      #expect(placement.obstacle.map(matches) == true, "\(String(describing: placement.obstacle))")
    }
    expect(Self.placement(.absent, nodes: [], spread: [])) { if case .notInstalled = $0 { true } else { false } }
    expect(Self.placement(.notLoaded, nodes: [], spread: [])) { if case .notLoaded = $0 { true } else { false } }
    expect(Self.placement(.loaded, mayCreate: false, nodes: [], spread: [])) {
      if case .mayNotCreate = $0 { true } else { false }
    }
    expect(Self.placement(isWorker: true, spread: [])) {
      if case .isWorker(coordinator: "c:5432") = $0 { true } else { false }
    }
    expect(Self.placement(nodes: [], spread: [])) { if case .noWorkers = $0 { true } else { false } }
    let alone = [Self.node("c:5432", isCoordinator: true)]
    expect(Self.placement(nodes: alone, spread: [])) { if case .noWorkers = $0 { true } else { false } }
    expect(Self.placement(nodes: [Self.node("a:5432"), Self.node("b:5432", isActive: false)])) {
      if case .inactive(node: "b:5432") = $0 { true } else { false }
    }
    expect(Self.placement(nodes: [Self.node("a:5432"), Self.node("b:5432", answers: false)])) {
      if case .silent(node: "b:5432") = $0 { true } else { false }
    }
    expect(Self.placement(nodes: [Self.node("a:5432", prepares: false)])) {
      if case .noPreparedTransactions(node: "a:5432") = $0 { true } else { false }
    }
    let odd: [PostgresPlacement.Table.Spread] = [
      .init(column: "device", group: 1, shards: 32), .init(column: nil, group: 1, shards: 1),
      .init(column: "account", group: 2, shards: 32),
    ]
    for way in odd {
      expect(Self.placement(odd: way)) { if case .otherwise(table: "wakes") = $0 { true } else { false } }
    }
  }

  @Test func `skew is the largest server's bytes by the mean, without a coordinator that holds nothing`() {
    func skew(_ bytes: Int64...) -> Double? {
      let workers = bytes.enumerated().map { Self.node("w\($0):5432", bytes: $1) }
      return Self.placement(nodes: [Self.node("c:5432", isCoordinator: true)] + workers).skew
    }
    #expect(skew(100, 100) == 1)
    #expect(skew(300, 100) == 1.5)
    #expect(skew(900, 0, 0) == 3)
    #expect(skew(100) == nil && skew(0, 0) == nil)
  }
}
