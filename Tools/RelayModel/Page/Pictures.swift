/// The pictures of docs/scale.md, by the names of their files.
struct Pictures {
  let files: [(name: String, chart: Chart)]

  init(_ constants: Constants, _ outages: Outages) {
    let plans = Sizes.scale.map { Planner(constants: constants, hardware: Sizes.large).plan(Sizes.load($0)) }
    files = [
      ("scale-cost.svg", Self.cost(constants)), ("scale-cores.svg", Self.cores(plans)),
      ("scale-bounds.svg", Self.bounds(plans)), ("scale-outbox.svg", Self.outbox(outages)),
      ("scale-push.svg", Self.push(outages)), ("scale-reconnect.svg", Self.reconnect(outages)),
    ]
  }

  private static func cost(_ constants: Constants) -> Chart {
    let rates = (0...48).map { step in
      (0..<step).reduce(100.0) { value, _ in value * 1.100_694_171_252_209 }
    }
    let operations: [(String, OperationName)] = [
      ("accepted", .accept), ("delivered", .deliver), ("to a peer", .cross), ("across processes", .deliverAcross),
    ]
    let series = operations.map { title, name in
      Chart.Series(name: title, points: rates.map { ($0, constants[name].cost(at: $0).total) })
    }
    return Chart(
      title: "CPU for one message",
      description: "CPU milliseconds of all servers for one message fall as its rate rises.",
      x: Axis("messages a second at one process", of: rates, scale: .logarithmic),
      y: Axis("CPU ms", of: series.flatMap { $0.points.map(\.y) }), series: series)
  }

  private static func cores(_ plans: [Plan]) -> Chart {
    let names = ["relay", "PostgreSQL", "Redis"]
    let series = names.enumerated().map { index, name in
      Chart.Series(name: name, points: plans.map { ($0.load.accounts, $0.parts[index].busyCores) })
    }
    return Chart(
      title: "Busy cores in the busiest hour", description: "Busy cores of relay, PostgreSQL and Redis by accounts.",
      x: Axis("accounts", of: Sizes.scale, scale: .logarithmic),
      y: Axis("cores", of: series.flatMap { $0.points.map(\.y) }, scale: .logarithmic), series: series)
  }

  private static func bounds(_ plans: [Plan]) -> Chart {
    let shown: [Bound.Name] = [.postgresCores, .redisCores, .processMemory, .postgresConnections]
    let series = shown.map { name in
      Chart.Series(
        name: name.rawValue,
        points: plans.map { plan in (plan.load.accounts, 100 * (plan.bounds.first { $0.name == name }?.share ?? 0)) })
    }
    return Chart(
      title: "How far each bound is used", description: "Used shares of four bounds by accounts; 100 % is all.",
      x: Axis("accounts", of: Sizes.scale, scale: .logarithmic),
      y: Axis("% used", of: series.flatMap { $0.points.map { max($0.y, 0.1) } } + [1000], scale: .logarithmic),
      series: series, levels: [Chart.Level(name: "all of it", y: 100)])
  }

  private static func outbox(_ outages: Outages) -> Chart {
    let series = outages.outbox.map { name, outcome in Chart.Series(name: name, points: points(outcome.samples)) }
    return Chart(
      title: "A peer is away from 60 s to 660 s: what waits for it",
      description: "Messages in the outbox by time.", x: Axis("seconds", of: series.flatMap { $0.points.map(\.x) }),
      y: Axis("messages", of: series.flatMap { $0.points.map(\.y) }), series: series)
  }

  private static func push(_ outages: Outages) -> Chart {
    let series = outages.push.map { name, outcome in
      Chart.Series(
        name: name.replacing("one of four WebPush services is silent", with: "one of four is silent"),
        points: points(outcome.samples))
    }
    return Chart(
      title: "A push service is away from 60 s to 660 s: devices to be woken",
      description: "Devices that wait for a push by time.",
      x: Axis("seconds", of: series.flatMap { $0.points.map(\.x) }),
      y: Axis("devices", of: series.flatMap { $0.points.map(\.y) }), series: series)
  }

  private static func reconnect(_ outages: Outages) -> Chart {
    let names = ["with pauses", "without pauses", "with pauses, too little room"]
    let series = zip(names, outages.reconnect).map { name, run in
      Chart.Series(name: name, points: points(run.outcome.samples).filter { $0.x <= 120 })
    }
    return Chart(
      title: "Half of the processes are lost after 10 s: connected devices",
      description: "Connected devices by time.", x: Axis("seconds", of: [0, 120]),
      y: Axis("devices", of: series.flatMap { $0.points.map(\.y) }), series: series)
  }

  private static func points(_ samples: [Sample]) -> [(x: Double, y: Double)] {
    samples.map { ($0.seconds, $0.value) }
  }
}
