import Foundation

/// Everything that was measured, or is assumed: the content of a file of constants, checked.
struct Constants: Sendable, Equatable {
  private let constants: [ConstantName: Constant]
  private let operations: [OperationName: Operation]
  /// What is said of each machine, by its name in the file.
  let machines: [String: String]

  private struct File: Decodable {
    let machines: [String: String]
    let operations: [Operation]
    let constants: [Constant]
  }

  /// - Throws: `ModelFailure` that names the fault.
  init(json: Data) throws {
    let file: File
    do {
      file = try JSONDecoder().decode(File.self, from: json)
    } catch {
      throw ModelFailure("the constants cannot be read: \(Self.words(error))")
    }
    constants = try Self.byName(file.constants, name: \.name, kind: "constant")
    operations = try Self.byName(file.operations, name: \.name, kind: "operation")
    machines = file.machines
    for constant in file.constants {
      guard constant.value.isFinite, constant.value >= 0 else {
        throw ModelFailure("the constant \(constant.name) is \(constant.value): it has to be 0 or more")
      }
    }
    for machine in file.constants.map(\.machine) + file.operations.map(\.machine) where file.machines[machine] == nil {
      throw ModelFailure("the machine \(machine) is not among the machines")
    }
    for operation in file.operations { try Self.check(operation) }
  }

  /// - Throws: `ModelFailure` that names the file.
  init(file path: String) throws {
    guard let data = FileManager.default.contents(atPath: path) else {
      throw ModelFailure("there is no file \(path): name the constants with --constants, or run in the sources' folder")
    }
    do {
      try self.init(json: data)
    } catch let failure as ModelFailure {
      throw ModelFailure("\(path): \(failure)")
    }
  }

  /// Its file has every name: `init` sees to it.
  subscript(_ name: ConstantName) -> Double { constants[name]?.value ?? 0 }
  subscript(_ name: OperationName) -> Operation {
    operations[name]
      ?? Operation(
        name: name.rawValue, title: "", measured: false, machine: "", command: "", scenarios: [], points: [])
  }

  /// In the order of the program.
  var all: [Constant] { ConstantName.allCases.compactMap { constants[$0] } }
  var allOperations: [Operation] { OperationName.allCases.compactMap { operations[$0] } }
  /// The names of what was not measured.
  var assumed: [String] {
    all.filter { !$0.measured }.map(\.name) + allOperations.filter { !$0.measured }.map(\.name)
  }

  /// The operation that a scenario of `relay-bench` measures.
  func operation(ofScenario scenario: String) -> OperationName? {
    OperationName.allCases.first { operations[$0]?.scenarios.contains(scenario) ?? false }
  }

  /// The cost of a look-up of `contacts` contacts: so much for the request, and so much for each of them.
  func lookUp(contacts: Double) -> OperationCost {
    let small = self[.lookUp1000].cost(at: 0)
    let large = self[.lookUp5000].cost(at: 0)
    func line(_ part: KeyPath<OperationCost, Double>) -> Double {
      let slope = max(0, (large[keyPath: part] - small[keyPath: part]) / 4000)
      return max(0, small[keyPath: part] + slope * (contacts - 1000))
    }
    return OperationCost(relay: line(\.relay), peer: 0, postgres: line(\.postgres), redis: line(\.redis))
  }

  private static func byName<Value, Name: RawRepresentable<String> & CaseIterable & Hashable>(
    _ values: [Value], name: KeyPath<Value, String>, kind: String
  ) throws -> [Name: Value] {
    var named: [Name: Value] = [:]
    for value in values {
      let text = value[keyPath: name]
      guard let key = Name(rawValue: text) else { throw ModelFailure("the model knows no \(kind) \(text)") }
      guard named.updateValue(value, forKey: key) == nil else { throw ModelFailure("the \(kind) \(text) comes twice") }
    }
    for key in Name.allCases where named[key] == nil { throw ModelFailure("the \(kind) \(key.rawValue) is missing") }
    return named
  }

  private static func check(_ operation: Operation) throws {
    guard !operation.points.isEmpty else { throw ModelFailure("the operation \(operation.name) has no points") }
    for point in operation.points {
      let parts = [point.relay, point.peer ?? 0, point.postgres, point.redis]
      guard point.perSecond.isFinite, point.perSecond > 0, parts.allSatisfy({ $0.isFinite && $0 >= 0 }) else {
        throw ModelFailure("the operation \(operation.name) has a point with a rate or a cost below 0")
      }
    }
    for (low, high) in zip(operation.points, operation.points.dropFirst()) {
      guard low.perSecond < high.perSecond else {
        throw ModelFailure("the points of the operation \(operation.name) have to ascend by their rate")
      }
      // Far less work for more of them would be a slip of the pen: the points are in CPU for each operation.
      for part in [\OperationCost.relay, \.postgres, \.redis, \.peer] {
        let (before, after) = (low.cost[keyPath: part] * low.perSecond, high.cost[keyPath: part] * high.perSecond)
        guard after >= before * 0.75 else {
          throw ModelFailure(
            "the operation \(operation.name) takes less CPU at \(high.perSecond)/s than at \(low.perSecond)/s")
        }
      }
    }
  }

  private static func words(_ error: any Error) -> String {
    guard let error = error as? DecodingError else { return "it is no JSON" }
    switch error {
    case .keyNotFound(let key, let context): return "\(path(context)) has no \(key.stringValue)"
    case .typeMismatch(_, let context), .valueNotFound(_, let context): return "\(path(context)) is of the wrong kind"
    case .dataCorrupted: return "it is no JSON"
    @unknown default: return "it is no JSON"
    }
  }

  private static func path(_ context: DecodingError.Context) -> String {
    let path = context.codingPath.map { $0.intValue.map { "\($0 + 1)" } ?? $0.stringValue }.joined(separator: ".")
    return path.isEmpty ? "the file" : path
  }
}
