import Foundation
import TestTags
import Testing

@testable import RelayModel

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// Predictions beside measurements.
@Suite(.tags(.unit)) struct ValidationTests {
  private func validation(_ text: String, errorMax: Double = 0.2) throws -> Validation {
    let constants = try Samples.constants([.processMemory: 100, .directoryEntry: 1_048_576, .connectTLS: 0.5])
    return Validation(
      try MeasuredPoints(json: Data(text.utf8), constants).points, constants, errorMax: errorMax)
  }

  @Test func `a point within a fifth is good, and one beyond it is not`() throws {
    func isGood(_ value: Double) throws -> Bool {
      try validation(
        """
        {"points": [{"title": "x", "quantity": "cpu", "operation": "draw", "perSecond": 5, "value": \(value), "unit": "ms"}]}
        """
      ).isGood
    }
    // Predicted are 2.6.
    #expect(try isGood(2.6) && isGood(2.2) && isGood(3.2))
    #expect(try !isGood(2.1) && !isGood(3.3))
  }

  @Test func `memory is that of a process and its entries`() throws {
    let text = #"{"points": [{"title": "x", "quantity": "memory", "entries": 20, "value": 120, "unit": "MiB"}]}"#
    #expect(try validation(text).lines.map(\.predicted) == [120])
  }

  @Test func `figures of relay-bench are read, and what the model does not know is named`() throws {
    let text = """
      {"scenarios": [
        {"scenario": "messages-local", "title": "local", "perSecond": 1000, "requests": 1,
         "cpuSecondsPerThousand": {"total": 2.6, "byProcess": {}}},
        {"scenario": "dreams", "title": "dreams", "perSecond": 1, "cpuSecondsPerThousand": {"total": 1, "byProcess": {}}}],
       "idleConnections": [{"isTLS": true, "kibibytesEach": 1, "cpuSecondsPerThousandConnects": 0.5}]}
      """
    let constants = try Samples.constants([.connectTLS: 0.5, .connectionTLS: 2])
    let points = try MeasuredPoints(json: Data(text.utf8), constants)
    #expect(points.skipped == ["dreams"])
    let validation = Validation(points.points, constants)
    #expect(validation.lines.map { validation.isGood($0) } == [true, false, true])
  }

  @Test func `files that say nothing are refused`() throws {
    for text in ["{}", "no", #"{"points": []}"#, #"{"scenarios": [], "idleConnections": []}"#] {
      #expect(throws: ModelFailure.self, "\(text)") { try validation(text) }
    }
    let luck = #"{"points": [{"title": "x", "quantity": "luck", "value": 1, "unit": "-"}]}"#
    #expect(throws: ModelFailure("x: the model knows no quantity luck")) { try validation(luck) }
    let rateless = #"{"points": [{"title": "x", "quantity": "cpu", "operation": "draw", "value": 1, "unit": "-"}]}"#
    #expect(throws: ModelFailure("x: a point of cpu has its perSecond")) { try validation(rateless) }
  }

  @Test func `the repository's points hold`() throws {
    let constants = try Samples.committed()
    let points = try MeasuredPoints(json: try Samples.file("Tools/RelayModel/points.json"), constants)
    let validation = Validation(points.points, constants)
    #expect(validation.isGood, "\(validation.table.lines.joined(separator: "\n"))")
  }
}

/// Numbers, tables and pictures.
@Suite(.tags(.unit)) struct ChartTests {
  @Test func `numbers have three digits that count`() {
    let numbers = [0, 0.126, 0.0612, 1.5, 12.34, 99.96, 123.4, 1234, 999_900, 1e9, 0.00001, 0.0008, 0.0046371]
    let texts = [
      "0", "0.126", "0.061", "1.5", "12.3", "100", "123", "1,230", "1,000,000", "1,000,000,000", "0.00001", "0.0008",
      "0.00464",
    ]
    #expect(numbers.map(Numbers.short) == texts)
    #expect(Numbers.metric(1e6) == "1 M" && Numbers.metric(20_500) == "20.5 k" && Numbers.metric(12) == "12")
    #expect(Numbers.whole(1_234_567.6) == "1,234,568" && Numbers.plain(0.5) == "0.5")
  }

  @Test func `an axis has room for all values, and ticks of even steps`() {
    let linear = Axis("x", of: [3, 87, 12])
    #expect(linear.range == 0...100 && linear.ticks == [0, 20, 40, 60, 80, 100])
    #expect(linear.place(50) == 0.5 && linear.place(-5) == 0 && linear.place(500) == 1)
    let ratios = Axis("x", of: [20, 5000], scale: .logarithmic)
    #expect(ratios.range == 10...10_000 && ratios.ticks.map(ratios.text) == ["10", "100", "1k", "10k"])
    #expect(abs(ratios.place(1000) - 2.0 / 3) < 1e-9)
    #expect(Axis("x", of: []).range == 0...1)
    #expect(Axis("x", of: [0], scale: .logarithmic).range == 1...10)
  }

  @Test func `a picture is well-formed, whatever its words are, and is drawn within its frame`() throws {
    var chart = Chart(
      title: "a < b & \"c\"", description: "<>", x: Axis("x", of: [10]), y: Axis("y", of: [10]),
      series: [
        Chart.Series(name: "<one>", points: (0...1000).map { (Double($0) / 100, Double($0 % 10)) }),
        Chart.Series(name: "two", points: []),
      ], levels: [Chart.Level(name: "&", y: 5)])
    for isBars in [false, true] {
      chart.isBars = isBars
      let picture = try Picture(chart.svg)
      #expect(picture.root == "svg")
      #expect(picture.texts.contains("a < b & \"c\"") && picture.texts.contains("<one>"))
      #expect(picture.numbers.allSatisfy { (0...720).contains($0) }, "\(picture.numbers.filter { $0 < 0 || $0 > 720 })")
    }
  }

  @Test func `a table is Markdown of even columns`() {
    let table = TextTable(header: ["part", "cores"], rows: [["relay", "12"], ["x", "1,234"]])
    #expect(table.lines == ["| part  | cores |", "| ----- | ----: |", "| relay |    12 |", "| x     | 1,234 |"])
  }
}

/// What is read of a picture.
private final class Picture: NSObject, XMLParserDelegate {
  private(set) var root: String?
  private(set) var texts: [String] = []
  /// Coordinates and sizes.
  private(set) var numbers: [Double] = []
  private var text = ""

  init(_ svg: String) throws {
    super.init()
    let parser = XMLParser(data: Data(svg.utf8))
    parser.delegate = self
    guard parser.parse() else { throw ModelFailure("the picture is no XML: \(String(describing: parser.parserError))") }
  }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    root = root ?? name
    text = ""
    let points = (attributes["points"] ?? "").split(whereSeparator: { $0 == " " || $0 == "," }).compactMap {
      Double($0)
    }
    numbers +=
      points + ["x", "y", "x1", "y1", "x2", "y2", "width", "height"].compactMap { attributes[$0].flatMap(Double.init) }
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }
  func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
    if name == "text" || name == "title" { texts.append(text) }
  }
}

/// docs/scale.md is what the constants make of it.
@Suite(.tags(.computing)) struct ScalePageTests {
  private static let generated = Result {
    try GeneratedFiles(
      try Samples.committed(), points: try Samples.file("Tools/RelayModel/points.json"),
      page: String(decoding: try Samples.file("docs/scale.md"), as: UTF8.self))
  }

  @Test func `the page and its pictures are in step with the constants`() throws {
    let generated = try Self.generated.get()
    #expect(Data(generated.page.utf8) == (try Samples.file("docs/scale.md")), "run make model")
    for (name, text) in generated.pictures {
      #expect(Data(text.utf8) == (try Samples.file("docs/images/\(name)")), "\(name): run make model")
    }
  }

  @Test func `every picture is well-formed, in its frame, and shown by the page`() throws {
    let generated = try Self.generated.get()
    for (name, text) in generated.pictures {
      let picture = try Picture(text)
      #expect(picture.root == "svg" && picture.texts.count > 10, "\(name)")
      #expect(picture.numbers.allSatisfy { (0...720).contains($0) }, "\(name)")
      #expect(generated.page.contains("(images/\(name))"), "\(name)")
    }
  }

  @Test func `filling twice changes nothing`() throws {
    let constants = try Samples.committed()
    let page = ScalePage(constants, [], try Outages(constants))
    let empty = page.parts.keys.sorted().map { "<!-- model: begin \($0) -->\n<!-- model: end -->" }
    let once = try page.filled("before\n" + empty.joined(separator: "\nbetween\n") + "\nafter\n")
    #expect(try page.filled(once) == once)
    #expect(once.hasPrefix("before\n<!-- model: begin ") && once.hasSuffix("<!-- model: end -->\nafter\n"))

    func fault(_ text: String) -> String {
      do { _ = try page.filled(text) } catch { return "\(error)" }
      return "none"
    }
    #expect(fault("nothing") == "the part bounds has no place")
    #expect(fault("<!-- model: begin luck -->") == "the model makes no part luck")
    #expect(fault("<!-- model: end -->").contains("ends nothing"))
    #expect(fault("<!-- model: begin bounds -->") == "the last part has no end")
    #expect(fault(empty[0] + "\n" + empty[0]) == "the part bounds has two places")
  }
}
