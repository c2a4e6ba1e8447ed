/// The generated parts of docs/scale.md: each stands between `<!-- model: begin NAME -->` and `<!-- model: end -->`.
struct ScalePage {
  /// By the names of their places.
  let parts: [String: [String]]

  init(_ constants: Constants, _ points: [MeasuredPoint], _ outages: Outages) {
    let validation = Validation(points, constants)
    parts = [
      "sizes": Self.sizes(constants, Hardware()),
      "large-sizes": Self.sizes(constants, Sizes.large),
      "bounds": Self.bounds(constants),
      "operations": Self.operations(constants),
      "constants": Self.constants(constants),
      "validation": validation.table.lines,
      "outbox": OutageText.table(of: outages.outbox).lines,
      "push": OutageText.table(of: outages.push).lines,
      "reconnect": OutageText.table(of: outages.reconnect).lines,
    ]
  }

  /// - Returns: `text` with every part in its place.
  /// - Throws: `ModelFailure` when a place is missing, unknown, or has no end.
  func filled(_ text: String) throws -> String {
    var lines: [String] = []
    var found: Set<String> = []
    var isInside = false
    for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      if let name = Self.name(of: line) {
        guard !isInside else { throw ModelFailure("\(line) stands before the end of another part") }
        guard let part = parts[name] else { throw ModelFailure("the model makes no part \(name)") }
        guard found.insert(name).inserted else { throw ModelFailure("the part \(name) has two places") }
        isInside = true
        lines += [line, ""] + part + [""]
      } else if line == Self.end {
        guard isInside else { throw ModelFailure("\(line) ends nothing") }
        isInside = false
        lines.append(line)
      } else if !isInside {
        lines.append(line)
      }
    }
    guard !isInside else { throw ModelFailure("the last part has no end") }
    if let missing = Set(parts.keys).subtracting(found).min() { throw ModelFailure("the part \(missing) has no place") }
    return lines.joined(separator: "\n")
  }

  private static let begin = "<!-- model: begin "
  private static let end = "<!-- model: end -->"

  private static func name(of line: String) -> String? {
    guard line.hasPrefix(begin), line.hasSuffix(" -->") else { return nil }
    return String(line.dropFirst(begin.count).dropLast(4))
  }

  // MARK: Tables

  private static func plans(_ constants: Constants, _ hardware: Hardware) -> [Plan] {
    Sizes.accounts.map { Planner(constants: constants, hardware: hardware).plan(Sizes.load($0)) }
  }

  private static func sizes(_ constants: Constants, _ hardware: Hardware) -> [String] {
    let plans = plans(constants, hardware)
    func row(_ name: String, _ value: (Plan) -> String) -> [String] { [name] + plans.map(value) }
    func sum(_ plan: Plan, _ part: KeyPath<PlannedPart, Double>) -> Double {
      plan.parts.reduce(0) { $0 + $1[keyPath: part] }
    }
    var rows = [
      row("messages/s in the busiest hour") { Numbers.short($0.messagesPerSecond) },
      row("rows written/s") { Numbers.short($0.rowsPerSecond) },
      row("commands to Redis/s") { Numbers.short($0.redisOperationsPerSecond) },
      row("connected devices") { Numbers.metric($0.connections) },
      row("relay processes, with the spare ones") { Numbers.whole($0.parts[0].count) },
    ]
    for (index, name) in ["relay", "PostgreSQL", "Redis"].enumerated() {
      rows.append(row("\(name): busy cores") { Numbers.short($0.parts[index].busyCores) })
      rows.append(row("\(name): memory GiB") { Numbers.short($0.parts[index].memoryGiB) })
    }
    rows += [
      row("relay: network Mbit/s") { Numbers.short($0.parts[0].networkMegabits) },
      row("PostgreSQL: network Mbit/s") { Numbers.short($0.parts[1].networkMegabits) },
      row("PostgreSQL: disk GiB, both servers") { Numbers.short($0.parts[1].diskGiB) },
      row("attachments: disk GiB") { Numbers.short($0.parts[3].diskGiB) },
      row("cores to buy") { Numbers.short(sum($0, \.cores)) },
      row("core hours a month") { Numbers.short($0.coreHoursPerMonth) },
      row("cost a month at \(Numbers.short(hardware.coreHourPrice)) a core hour") { Numbers.short($0.costPerMonth) },
      row("first bottleneck") { $0.firstBound?.name.rawValue ?? "-" },
      row("used") { Numbers.percent($0.firstBound?.share ?? 0) },
    ]
    return TextTable(header: [""] + Sizes.accounts.map { "\(Numbers.metric($0)) accounts" }, rows: rows).lines
  }

  private static func bounds(_ constants: Constants) -> [String] {
    let plans = plans(constants, Sizes.large)
    let rows = Bound.Name.allCases.map { name in
      let found = plans.map { plan in plan.bounds.first { $0.name == name } }
      return [name.rawValue, found.first.flatMap { $0.map { "\(Numbers.exact($0.limit)) \($0.unit)" } } ?? "-"]
        + found.map { $0.map { Numbers.percent($0.share) } ?? "-" }
    }
    return TextTable(
      header: ["bound", "limit"] + Sizes.accounts.map { "used at \(Numbers.metric($0))" }, rows: rows
    ).lines
  }

  private static func operations(_ constants: Constants) -> [String] {
    let rows = constants.allOperations.flatMap { operation in
      operation.points.map { point in
        [
          operation.title, Numbers.short(point.perSecond), Numbers.short(point.relay),
          point.peer.map(Numbers.short) ?? "-", Numbers.short(point.postgres), Numbers.short(point.redis),
          operation.measured ? "yes" : "no",
        ]
      }
    }
    return TextTable(
      header: ["CPU ms of one", "at a second", "relay", "peer's relay", "PostgreSQL", "Redis", "measured"], rows: rows,
      words: [0, 6]
    ).lines
  }

  private static func constants(_ constants: Constants) -> [String] {
    TextTable(
      header: ["constant", "value", "unit", "measured", "how to measure it"],
      rows: constants.all.map { constant in
        [
          "`\(constant.name)`", Numbers.short(constant.value), constant.unit, constant.measured ? "yes" : "no",
          constant.command.replacing("|", with: "\\|"),
        ]
      }, words: [0, 2, 3, 4]
    ).lines
  }
}
