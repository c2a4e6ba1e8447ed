import Foundation

/// One figure that was measured, and that the model can say beforehand.
struct MeasuredPoint: Sendable, Equatable {
  enum Quantity: Sendable, Equatable {
    /// CPU milliseconds of all servers for each operation.
    case cpu(OperationName, perSecond: Double)
    /// MiB of one relay process.
    case memory(entries: Double, connections: Double, isTLS: Bool)
    /// Relay's CPU milliseconds a connection.
    case connect(isTLS: Bool)
    /// KiB a connection.
    case connection(isTLS: Bool)
  }
  let title: String
  let quantity: Quantity
  let value: Double
  let unit: String
}

/// A file of points: ours, or the figures of `relay-bench --json`.
struct MeasuredPoints: Sendable {
  let points: [MeasuredPoint]
  /// Scenarios of `relay-bench` that the model says nothing of.
  let skipped: [String]

  /// - Throws: `ModelFailure` that names the fault.
  init(json: Data, _ constants: Constants) throws {
    let decoder = JSONDecoder()
    if let file = try? decoder.decode(PointFile.self, from: json) {
      points = try file.points.map { try $0.point() }
      skipped = []
    } else if let report = try? decoder.decode(BenchmarkFile.self, from: json) {
      (points, skipped) = report.points(constants)
    } else {
      throw ModelFailure("the file holds neither points nor figures of relay-bench --json")
    }
    guard !points.isEmpty else { throw ModelFailure("the file holds no point that the model could be held against") }
  }
}

/// `points.json`.
private struct PointFile: Decodable {
  struct Entry: Decodable {
    let title: String
    let quantity: String
    let value: Double
    let unit: String
    let operation: String?
    let perSecond: Double?
    let entries: Double?
    let connections: Double?
    let tls: Bool?

    func point() throws -> MeasuredPoint {
      guard value.isFinite, value > 0 else { throw ModelFailure("\(title): the value has to be above 0") }
      return MeasuredPoint(title: title, quantity: try parsed(), value: value, unit: unit)
    }

    private func parsed() throws -> MeasuredPoint.Quantity {
      switch quantity {
      case "cpu":
        guard let name = operation.flatMap(OperationName.init(rawValue:)) else {
          throw ModelFailure("\(title): a point of cpu names one of the model's operations")
        }
        guard let perSecond, perSecond > 0 else { throw ModelFailure("\(title): a point of cpu has its perSecond") }
        return .cpu(name, perSecond: perSecond)
      case "memory": return .memory(entries: entries ?? 0, connections: connections ?? 0, isTLS: tls ?? true)
      case "connect": return .connect(isTLS: tls ?? true)
      case "connection": return .connection(isTLS: tls ?? true)
      default: throw ModelFailure("\(title): the model knows no quantity \(quantity)")
      }
    }
  }
  let points: [Entry]
}

/// The part of a report of `relay-bench` that matters here.
private struct BenchmarkFile: Decodable {
  struct Scenario: Decodable {
    struct CPU: Decodable { let total: Double }
    let scenario: String
    let title: String
    let perSecond: Double
    let cpuSecondsPerThousand: CPU
  }
  struct Idle: Decodable {
    let isTLS: Bool
    let kibibytesEach: Double
    let cpuSecondsPerThousandConnects: Double
  }
  let scenarios: [Scenario]
  let idleConnections: [Idle]

  func points(_ constants: Constants) -> ([MeasuredPoint], skipped: [String]) {
    var points: [MeasuredPoint] = []
    var skipped: [String] = []
    for figures in scenarios {
      guard let name = constants.operation(ofScenario: figures.scenario), figures.perSecond > 0,
        figures.cpuSecondsPerThousand.total > 0
      else {
        skipped.append(figures.scenario)
        continue
      }
      points.append(
        MeasuredPoint(
          title: figures.title, quantity: .cpu(name, perSecond: figures.perSecond),
          value: figures.cpuSecondsPerThousand.total, unit: "CPU ms"))
    }
    for idle in idleConnections {
      let kind = idle.isTLS ? "TLS" : "plain"
      points.append(
        MeasuredPoint(
          title: "memory of an idle connection, \(kind)", quantity: .connection(isTLS: idle.isTLS),
          value: idle.kibibytesEach, unit: "KiB"))
      points.append(
        MeasuredPoint(
          title: "a new connection, \(kind)", quantity: .connect(isTLS: idle.isTLS),
          value: idle.cpuSecondsPerThousandConnects, unit: "CPU ms"))
    }
    return (points, skipped)
  }
}
