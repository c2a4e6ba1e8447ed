/// The model's word beside what was measured.
struct Validation: Sendable, Encodable {
  struct Line: Sendable, Encodable, Equatable {
    let title: String
    let measured: Double
    let predicted: Double
    let unit: String
    /// Of the measured value: 0.1 says a tenth too much.
    var error: Double { predicted / measured - 1 }

    private enum CodingKeys: String, CodingKey { case title, measured, predicted, unit, error }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(title, forKey: .title)
      try container.encode(measured, forKey: .measured)
      try container.encode(predicted, forKey: .predicted)
      try container.encode(unit, forKey: .unit)
      try container.encode(error, forKey: .error)
    }
  }

  /// Of the measured value.
  let errorMax: Double
  let lines: [Line]

  init(_ points: [MeasuredPoint], _ constants: Constants, errorMax: Double = 0.2) {
    self.errorMax = errorMax
    lines = points.map { point in
      Line(
        title: point.title, measured: point.value, predicted: Self.predicted(point.quantity, constants),
        unit: point.unit)
    }
  }

  var isGood: Bool { !lines.isEmpty && lines.allSatisfy(isGood) }
  func isGood(_ line: Line) -> Bool { abs(line.error) <= errorMax }

  private static func predicted(_ quantity: MeasuredPoint.Quantity, _ constants: Constants) -> Double {
    switch quantity {
    case .cpu(let name, let perSecond): constants[name].cost(at: perSecond).total
    case .memory(let entries, let connections, let isTLS):
      constants[.processMemory] + entries * constants[.directoryEntry] / 1_048_576
        + connections * constants[isTLS ? .connectionTLS : .connectionPlain] / 1024
    case .connect(let isTLS): constants[isTLS ? .connectTLS : .connectPlain]
    case .connection(let isTLS): constants[isTLS ? .connectionTLS : .connectionPlain]
    }
  }

  var table: TextTable {
    TextTable(
      header: ["figure", "measured", "predicted", "unit", "error", "within \(Numbers.percent(errorMax))"],
      rows: lines.map { line in
        [
          line.title, Numbers.short(line.measured), Numbers.short(line.predicted), line.unit,
          (line.error >= 0 ? "+" : "") + Numbers.percent(line.error), isGood(line) ? "yes" : "NO",
        ]
      }, words: [0, 3, 5])
  }
}
